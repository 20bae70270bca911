-- Tell whether the unit at one place comes before the unit at the other, as far as they share a key: by offset, or in
-- different partitions by their layouts.
create or replace function gapless.is_ahead(
  _topic_id int, _partition_id int, _first_offset bigint, _other_partition int, _other_offset bigint
) returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select case
    when _partition_id = _other_partition
      then _first_offset < _other_offset
    else gapless.layout_of(_topic_id, _partition_id, _first_offset)
      < gapless.layout_of(_topic_id, _other_partition, _other_offset)
  end
$$;
