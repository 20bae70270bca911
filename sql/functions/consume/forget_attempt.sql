-- Take back record_attempt(): the attempt ended with an error instead of a death: it does not count.
create or replace function gapless.forget_attempt(
  group_id text, topic_id int, partition_id int, epoch bigint, token uuid
)
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  update gapless.consumer_offsets c set attempts = c.attempts - 1
  where c.group_id = forget_attempt.group_id and c.topic_id = forget_attempt.topic_id
    and c.partition_id = forget_attempt.partition_id
    and c.epoch = forget_attempt.epoch and c.token = forget_attempt.token
    and c.attempt_offset = c.next_offset and c.attempts > 0
$$;
