-- Tell whether a unit that comes before this one holds the key.
create or replace function gapless.is_behind(
  _group_id text, _topic_id int, _partition_id int, _first_offset bigint, _key_digest bytea
) returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select exists (
    select from gapless.key_heads(_group_id, _topic_id, _partition_id, _key_digest) h
    where gapless.is_ahead(_topic_id, h.in_partition, h.at_offset, _partition_id, _first_offset)
  )
$$;
