-- Put each event of a range aside as a unit of its own, as set_aside(); returns their number. The caller marks the
-- range.
create or replace function gapless.aside_events(
  _group_id text, _topic_id int, _partition_id int, _first_offset bigint, _last_offset bigint,
  _state text, _reason text, _exception text,
  _exception_class text default null, _sqlstate text default null, _attempts int default 1,
  _retry_after interval default null, _worker text default null, _duration_ms double precision default null
) returns bigint
language sql security definer set search_path = pg_catalog, pg_temp as $$
  select count(gapless.set_aside(
    _group_id, _topic_id, _partition_id, e.c_offset, array[e.id], _state, _reason, _exception,
    _exception_class, _sqlstate, _attempts, _retry_after, false, _worker, _duration_ms
  ))
  from gapless.range_events(_topic_id, _partition_id, _first_offset, _last_offset) e
$$;
