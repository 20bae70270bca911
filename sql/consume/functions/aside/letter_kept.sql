-- Return the offsets of the events that the handler of a unit set aside gets.
create or replace function gapless.letter_kept(_group_id text, _topic_id int, _partition_id int, _first_offset bigint)
returns setof bigint
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select e.c_offset
  from gapless.dead_letter_event e
  where e.group_id = _group_id and e.topic_id = _topic_id and e.partition_id = _partition_id
    and e.first_offset = _first_offset and e.is_kept
$$;
