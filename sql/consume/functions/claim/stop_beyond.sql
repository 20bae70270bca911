-- Stop a group that was found beyond the end of the log: it stays there, also when the log reaches that offset, until a
-- person chooses where it continues (seek.sql). log_end: the offset that the next event had then. Called in a
-- transaction of its own: that of the claim which found it is rolled back.
create or replace function gapless.stop_beyond(
  _group_id text, _topic_id int, _partition_id int, _epoch bigint, _token uuid, _log_end bigint
) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update gapless.consumer_offsets c set stopped_at = _log_end
  where c.group_id = _group_id and c.topic_id = _topic_id and c.partition_id = _partition_id
    and c.epoch = _epoch and c.token = _token
    and c.next_offset > _log_end and c.stopped_at is null
$$;
