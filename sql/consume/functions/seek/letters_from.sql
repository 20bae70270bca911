-- Return the number of dead letters of a partition at this offset or later.
create or replace function gapless.letters_from(_group_id text, _topic_id int, _partition_id int, _first_offset bigint)
returns bigint
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select count(*) from gapless.dead_letter_queue d
  where d.group_id = _group_id and d.topic_id = _topic_id
    and d.partition_id = _partition_id and d.c_offset >= _first_offset
$$;
