-- Before a unit is handled in careful mode, in a transaction of its own: how often was it tried?
-- So a unit that kills its worker is known by its offset (I8). Null when fenced.
create or replace function gapless.record_attempt(
  _group_id text, _topic_id int, _partition_id int, _epoch bigint, _token uuid
)
returns int
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  update gapless.consumer_offsets c
  set attempts = case when c.attempt_offset = c.next_offset then c.attempts + 1 else 1 end,
    attempt_offset = c.next_offset
  where c.group_id = _group_id and c.topic_id = _topic_id and c.partition_id = _partition_id
    and c.epoch = _epoch and c.token = _token
  returning c.attempts
$$;
