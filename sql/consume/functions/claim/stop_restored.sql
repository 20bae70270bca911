-- Stop all groups as stop_beyond() does, in the run that finds that the log was restored: its new offsets follow the
-- end of the restored log, whose last run was last_run.
-- MUST NOT wait for a worker: a worker that has its row locked finds it by itself.
create or replace function gapless.stop_restored(_last_run bigint) returns void
language sql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
  with
  beyond as (
    select c.group_id, c.topic_id, c.partition_id, e.end_offset
    from gapless.consumer_offsets c
    cross join lateral (
      select coalesce(
        (
          select s.last_offset from gapless.log_segment s
          where s.topic_id = c.topic_id and s.partition_id = c.partition_id
            and s.run <= _last_run
          order by s.base_offset desc limit 1
        ), 0) + 1 as end_offset
    ) e
    where c.next_offset > e.end_offset and c.stopped_at is null
    for update of c skip locked
  ),
  stopped as (
    update gapless.consumer_offsets c set stopped_at = b.end_offset
    from beyond b
    where c.group_id = b.group_id and c.topic_id = b.topic_id and c.partition_id = b.partition_id
    returning c.group_id, c.topic_id, c.partition_id
  )
  -- Claims of a queue group look at its floor alone.
  insert into gapless.queue_floor (lease_no, version, next_offset, block, is_paused, place)
  select f.lease_no, f.version + 1, f.next_offset, f.block, true, f.place
  from stopped s
  join gapless.lease l using (group_id, topic_id, partition_id)
  cross join lateral gapless.floor_of(l.lease_no) f
  where f.version is not null
$$;
