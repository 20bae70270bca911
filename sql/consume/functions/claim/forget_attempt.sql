-- Undo record_attempt(): the attempt ended with an error instead of a death, so it does not count.
create or replace function gapless.forget_attempt(
  _group_id text, _topic_id int, _partition_id int, _epoch bigint, _token uuid
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  place tid := gapless.lock_offset(_group_id, _topic_id, _partition_id, _epoch, _token);
begin
  update gapless.consumer_offsets c set attempts = c.attempts - 1
  where c.ctid = place and c.attempt_offset = c.next_offset and c.attempts > 0;
end
$$;
