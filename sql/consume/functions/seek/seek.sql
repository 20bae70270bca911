-- Move a group, one topic of it or one partition to another place, as gapless.seek_plan() plans it; returns the same
-- rows. Everything happens in the caller's transaction, or nothing.
--
-- Locks are taken in the order of claim() and its worker: first the advisory lock of each partition (7427003,
-- lease_no), which the worker's session holds all the time, so no handler is running; then the consumer_offsets row,
-- which every batch locks and compares. The token is removed: a former owner that was taken for dead cannot commit at
-- the old place (I7). Raises GL423 when a worker owns a partition.
--
-- Dead letters (I9): a unit that the group will handle again leaves the dead letter queue with all its state (waiting,
-- parked, dead, redriven or discarded). Otherwise it would be both handled and dead, or handled twice. Dead letters
-- before the new place stay, and are retried as before. Skipped events are no dead letters, because no handler tried
-- them; gapless.audit keeps the range.
--
-- holder: a pause to end in the same transaction (gapless.pause).
create or replace function gapless.seek(
  group_id text, topic text default null, partition_id int default null,
  to_end text default null, to_offset bigint default null, to_time timestamptz default null,
  to_transaction uuid default null, holder uuid default null
) returns table (
  topic_name text, partition_no int, next_offset bigint, new_offset bigint,
  again bigint, skipped bigint, letters bigint, worker boolean
)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  part record;
begin
  -- Topics come first in the order of locks.
  perform gapless.hold_start(array(
    select g.topic_id from gapless.consumer_group g where g.group_id = seek.group_id
  ));
  -- A loop: in a WHERE the planner may take the locks of rows that it joins away afterwards.
  for part in
    select l.lease_no, t.name, c.partition_id
    from gapless.group_partitions(seek.group_id, seek.topic, seek.partition_id) c
    join gapless.topic t using (topic_id)
    join gapless.lease l using (group_id, topic_id, partition_id)
    order by l.lease_no
  loop
    if not pg_try_advisory_xact_lock(7427003, part.lease_no) then
      raise exception 'a worker owns %/%/%: pause the group first (--pause), or stop its supervisors',
        seek.group_id, part.name, part.partition_id
        using errcode = 'GL423';
    end if;
  end loop;
  -- A row that was lost has its place again, wherever the seek then moves it.
  perform gapless.restore_offsets(seek.group_id, seek.topic, seek.partition_id);
  perform from gapless.consumer_offsets c
  where (c.group_id, c.topic_id, c.partition_id) in (
    select p.group_id, p.topic_id, p.partition_id
    from gapless.group_partitions(seek.group_id, seek.topic, seek.partition_id) p
  )
  order by c.topic_id, c.partition_id
  for update;
  -- MUST come after the locks: only now does next_offset stand still.
  return query
  select p.* from gapless.seek_plan(
    seek.group_id, seek.topic, seek.partition_id, seek.to_end, seek.to_offset, seek.to_time,
    seek.to_transaction
  ) p
  cross join lateral gapless.move_offset(
    seek.group_id, p.topic_name, p.partition_no, p.next_offset, p.new_offset
  );
  if seek.holder is not null then
    perform gapless.resume(seek.group_id, seek.topic, seek.partition_id, seek.holder);
  end if;
end
$$;
