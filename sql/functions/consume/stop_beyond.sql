-- A group was found beyond the end of the log: it stays there, also when the log comes to that offset,
-- until it is told where to go on (seek.sql). log_end: the offset that the next event had then.
-- In a transaction of its own: that of the claim which found it is rolled back.
create or replace function gapless.stop_beyond(
  group_id text, topic_id int, partition_id int, epoch bigint, token uuid, log_end bigint
)
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  update gapless.consumer_offsets c set stopped_at = stop_beyond.log_end
  where c.group_id = stop_beyond.group_id and c.topic_id = stop_beyond.topic_id
    and c.partition_id = stop_beyond.partition_id
    and c.epoch = stop_beyond.epoch and c.token = stop_beyond.token
    and c.next_offset > stop_beyond.log_end and c.stopped_at is null
$$;
