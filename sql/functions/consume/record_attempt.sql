-- Before a unit is handled in careful mode, in a transaction of its own: how often was it tried?
-- So a unit that kills its worker is known by its offset (I8). Null when fenced.
create or replace function gapless.record_attempt(
  group_id text, topic_id int, partition_id int, epoch bigint, token uuid
)
returns int
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  update gapless.consumer_offsets c
  set attempts = case when c.attempt_offset = c.next_offset then c.attempts + 1 else 1 end,
    attempt_offset = c.next_offset
  where c.group_id = record_attempt.group_id and c.topic_id = record_attempt.topic_id
    and c.partition_id = record_attempt.partition_id
    and c.epoch = record_attempt.epoch and c.token = record_attempt.token
  returning c.attempts
$$;
