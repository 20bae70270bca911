-- Return the events of a unit that was set aside, from _from_offset to _to_offset (both inclusive).
-- index: dead_letter_event_pkey
create or replace function gapless.letter_events(
  _group_id text, _topic_id int, _partition_id int, _first_offset bigint, _from_offset bigint, _to_offset bigint
) returns setof gapless.dead_letter_event
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select *
  from gapless.dead_letter_event e
  where e.group_id = _group_id and e.topic_id = _topic_id and e.partition_id = _partition_id
    and e.first_offset = _first_offset and e.c_offset between _from_offset and _to_offset
$$;
