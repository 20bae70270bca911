-- Lock the row that every batch locks, and tell whether (epoch, token) still owns the partition (I7).
create or replace function gapless.lock_fence(
  group_id text, topic_id int, partition_id int, epoch bigint, token uuid
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
begin
  perform from gapless.consumer_offsets c
  where c.group_id = lock_fence.group_id and c.topic_id = lock_fence.topic_id
    and c.partition_id = lock_fence.partition_id
    and c.epoch = lock_fence.epoch and c.token = lock_fence.token
  for update;
  return found;
end
$$;
