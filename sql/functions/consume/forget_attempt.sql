-- Take back record_attempt(): the attempt ended with an error instead of a death: it does not count.
create or replace function gapless.forget_attempt(
  _group_id text, _topic_id int, _partition_id int, _epoch bigint, _token uuid
)
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  update gapless.consumer_offsets c set attempts = c.attempts - 1
  where c.group_id = _group_id and c.topic_id = _topic_id and c.partition_id = _partition_id
    and c.epoch = _epoch and c.token = _token
    and c.attempt_offset = c.next_offset and c.attempts > 0
$$;
