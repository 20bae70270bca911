-- Record that a unit is about to be handled. Returns the number of calls that began without an end, this one included;
-- 0 when the unit is not due (any more), or paused; null when fenced.
-- locks: the consumer_offsets row, then the unit's
create or replace function gapless.record_try(
  _group_id text, _topic_id int, _partition_id int, _epoch bigint, _token uuid, _first_offset bigint
) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  tries int;
begin
  if not gapless.lock_fence(_group_id, _topic_id, _partition_id, _epoch, _token) then
    return null;
  end if;
  update gapless.dead_letter d set crashes = d.crashes + 1
  where d.group_id = _group_id and d.topic_id = _topic_id
    and d.partition_id = _partition_id and d.first_offset = _first_offset
    and coalesce(d.state, '') = 'waiting' and d.next_attempt_ts <= clock_timestamp()
    and not gapless.is_paused(d.group_id, d.topic_id, d.partition_id)
  returning d.crashes into tries;
  return coalesce(tries, 0);
end
$$;
