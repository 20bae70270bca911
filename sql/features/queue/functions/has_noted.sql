-- Tell whether a partition of a queue group has events that were delivered before and are open again: ranges that
-- lapsed, were given back or lost their holder, and dead letters that are due. Writes nothing.
-- index: queue_range_pkey from the floor on, dead_letter_open
create or replace function gapless.has_noted(_group_id text, _topic_id int, _partition_id int, _lease_no int)
returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  now_ts timestamptz := clock_timestamp();    -- an index takes no volatile function
begin
  return not gapless.is_paused(_group_id, _topic_id, _partition_id) and (
    exists (
      select from gapless.queue_range r
      where r.lease_no = _lease_no
        and (r.deadline <= now_ts or r.deadline is not null and r.since_ts > now_ts + interval '1 s')
        and r.first_offset >= (
          select f.next_offset from gapless.queue_floor f
          where f.lease_no = _lease_no
          order by f.version desc limit 1
        )
    )
    or exists (
      select from gapless.dead_letter d
      where d.group_id = _group_id and d.topic_id = _topic_id and d.partition_id = _partition_id
        and d.state = 'waiting' and d.next_attempt_ts <= now_ts
    )
  );
end
$$;
