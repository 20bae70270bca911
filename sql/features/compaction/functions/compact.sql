-- Take at most events_max events of compacted topics into latest, and remove at most as many rows of topics that are no
-- longer compacted: one step, in the caller's transaction. Returns the number of these events and rows; 0 when there is
-- nothing to do now; null: no topic is compacted. To do everything, call it until it returns 0, and commit each time.
-- It may be repeated at any time, by any session: the place of a partition moves in the same transaction. Needs READ
-- COMMITTED. Raises GL400 for a value that is out of range.
-- locks: the compaction rows of the events that it takes in; those that another session has locked are left
create or replace function gapless.compact(events_max int default 2000) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  done bigint := 0;
  part record;
begin
  perform gapless.require_read_committed('compact');
  -- A step is one transaction: its locks, and the work that a kill undoes, have a bound.
  if (events_max between 1 and 10000) is not true then
    raise exception 'events_max is from 1 to 10000, not %', coalesce(events_max::text, 'null')
      using errcode = 'GL400';
  end if;
  -- Partitions that are new in the topic. Nothing of them was dropped: retention waits for this row.
  insert into gapless.compaction (topic_id, partition_id, next_offset)
  select t.topic_id, p, gapless.log_first(t.topic_id, p)
  from gapless.topic t
  cross join lateral generate_series(0, greatest(t.partitions, t.partitions_ever) - 1) p
  where t.compacted and not exists (
    select from gapless.compaction c where c.topic_id = t.topic_id and c.partition_id = p
  )
  on conflict do nothing;
  if not exists (select from gapless.compaction c) then
    return null;
  end if;
  for part in
    select distinct c.topic_id from gapless.compaction c join gapless.topic t using (topic_id) where not t.compacted
  loop
    exit when done >= events_max;
    done := done + gapless.forget_latest(part.topic_id, events_max - done);
  end loop;
  -- The longest waiting partition first: a large one does not keep the others back.
  for part in
    select c.topic_id, c.partition_id
    from gapless.compaction c
    join gapless.topic t using (topic_id)
    where t.compacted and c.next_offset < (gapless.log_ends(c.topic_id, c.partition_id)).end_offset
    order by c.moved_ts nulls first
  loop
    exit when done >= events_max;
    done := done + gapless.compact_partition(part.topic_id, part.partition_id, (events_max - done)::int);
  end loop;
  return done;
end
$$;
