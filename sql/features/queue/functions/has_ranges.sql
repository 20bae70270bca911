-- Tell whether a queue group has finished events, or events in hand, above its floor. False for an ordered group.
create or replace function gapless.has_ranges(_group_id text, _topic_id int, _partition_id int) returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
  select exists (
    select from gapless.lease l
    join gapless.queue_range r using (lease_no)
    where l.group_id = _group_id and l.topic_id = _topic_id and l.partition_id = _partition_id
  )
$$;
