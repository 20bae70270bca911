-- Lock the row that every batch locks, and tell whether (epoch, token) still owns the partition (I7).
create or replace function gapless.lock_fence(
  _group_id text, _topic_id int, _partition_id int, _epoch bigint, _token uuid
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
begin
  perform from gapless.consumer_offsets c
  where c.group_id = _group_id and c.topic_id = _topic_id and c.partition_id = _partition_id
    and c.epoch = _epoch and c.token = _token
  for update;
  return found;
end
$$;
