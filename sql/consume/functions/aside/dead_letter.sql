-- Put one failed unit into the dead letter queue, in the caller's transaction (I9): set_aside() for clients that know
-- no policy. Returns the number of written events; the caller treats fewer than requested as an error.
create or replace function gapless.dead_letter(
  _group_id text, _topic_id int, _partition_id int, _first_offset bigint, _message_ids bigint[],
  _exception text, _sqlstate text default null, _attempts int default 1
) returns int
language sql security definer set search_path = pg_catalog, pg_temp as $$
  select gapless.set_aside(
    _group_id, _topic_id, _partition_id, _first_offset,
    _message_ids, 'dead', coalesce(left(substring(_exception from E'[^\\n]*$'), 500), ''),
    _exception, _sqlstate => _sqlstate, _attempts => _attempts
  )
$$;
