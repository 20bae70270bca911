-- Move a group, one topic of it or one partition to another place: what gapless.seek_plan() says, and
-- returns the same rows. All of it in the caller's transaction, or nothing.
--
-- Locks, as claim() and its worker take them: first the advisory lock of each partition (7427003,
-- lease_no), which its worker's session holds all the time, so that no handler is running; then the
-- consumer_offsets row, which every batch locks and compares. The token goes: a former owner that was
-- taken for dead cannot commit at the old place (I7). Raises GL423 when a worker owns a partition.
--
-- Letters (I9): what the group will handle again leaves the dead letter queue with all its state,
-- waiting, parked, dead, redriven or discarded, or it would be both handled and dead, or handled
-- twice. Letters before the new place stay, and are tried again as they would have been. What is
-- skipped is no letter: nobody tried it; gapless.audit keeps the range.
--
-- holder: a pause to end in the same transaction (gapless.pause).
create or replace function gapless.seek(
  group_id text, topic text default null, partition_id int default null,
  to_end text default null, to_offset bigint default null, to_time timestamptz default null,
  to_transaction uuid default null, holder uuid default null
)
returns table (
  topic_name text, partition_no int, next_offset bigint, new_offset bigint,
  again bigint, skipped bigint, letters bigint, worker boolean
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
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
  -- One that was lost has its place again, wherever the seek goes from there.
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

-- Put a partition's offset elsewhere, and take the letters from there on away; its row is locked.
create or replace function gapless.move_offset(
  group_id text, topic text, partition_id int, old_offset bigint, new_offset bigint
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  of_topic int := gapless.topic_id(topic);
  removed jsonb;
begin
  if old_offset = new_offset and not exists (    -- one that is stopped there is to go on there
    select from gapless.consumer_offsets c
    where c.group_id = move_offset.group_id and c.topic_id = of_topic
      and c.partition_id = move_offset.partition_id and c.stopped_at is not null
  ) then
    return;
  end if;
  perform set_config('gapless.seeking', pg_current_xact_id()::text, true);
  update gapless.consumer_offsets c
  -- layout, passed: what was admitted after a change of the number of partitions is asked again.
  set next_offset = move_offset.new_offset, token = null, installed_offset = null,
    attempt_offset = null, attempts = 0, layout = 0, passed = 0, stopped_at = null
  where c.group_id = move_offset.group_id and c.topic_id = of_topic
    and c.partition_id = move_offset.partition_id;
  -- First of all: nobody discards one meanwhile.
  perform gapless.lock_keys(move_offset.group_id, of_topic, move_offset.partition_id);
  removed := gapless.sum_letters(
    move_offset.group_id, of_topic, move_offset.partition_id, move_offset.new_offset
  );
  perform gapless.forget_letters(
    move_offset.group_id, of_topic, move_offset.partition_id, move_offset.new_offset
  );
  insert into gapless.audit (action, group_id, topic_id, partition_id, detail)
  values (
    'seek', move_offset.group_id, of_topic, move_offset.partition_id,
    jsonb_build_object('from', old_offset, 'to', new_offset, 'letters', removed)
  );
end
$$;

-- What gapless.forget_letters() is about to take away: how many units of each state, and of what was
-- discarded by whom and why, 1000 at most.
create or replace function gapless.sum_letters(
  group_id text, topic_id int, partition_id int, from_offset bigint
)
returns jsonb
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  with lost as (
    select d.first_offset, d.state, d.discarded_by, d.discard_reason
    from gapless.dead_letter d
    where d.group_id = sum_letters.group_id and d.topic_id = sum_letters.topic_id
      and d.partition_id = sum_letters.partition_id and d.first_offset >= sum_letters.from_offset
  )
  select jsonb_strip_nulls(
    coalesce(
      (
        select jsonb_object_agg(c.state, c.units)
        from (select l.state, count(*) as units from lost l group by l.state) c
      ), '{}')
    || jsonb_build_object('discards', (
      select jsonb_agg(x)
      from (
        select l.first_offset as "offset", l.discarded_by as "by", l.discard_reason as reason
        from lost l where l.state = 'discarded' order by l.first_offset limit 1000
      ) x
    ))
  )
$$;
