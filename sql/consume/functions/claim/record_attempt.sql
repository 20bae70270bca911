-- Record an attempt before a unit is handled in careful mode, in a transaction of its own, and return its number. So a
-- unit that kills its worker is known by its offset (I8). Null when fenced.
create or replace function gapless.record_attempt(
  _group_id text, _topic_id int, _partition_id int, _epoch bigint, _token uuid
) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  place tid := gapless.lock_offset(_group_id, _topic_id, _partition_id, _epoch, _token);
  tries int;
begin
  update gapless.consumer_offsets c
  set attempts = case when c.attempt_offset = c.next_offset then c.attempts + 1 else 1 end,
    attempt_offset = c.next_offset
  where c.ctid = place
  returning c.attempts into tries;
  return tries;
end
$$;
