-- Does the unit at one place come before the one at the other, as far as they share a key? By offset;
-- in different partitions, by their layouts.
create or replace function gapless.is_ahead(
  topic_id int, partition_id int, first_offset bigint, other_partition int, other_offset bigint
)
returns boolean
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select case
    when is_ahead.partition_id = is_ahead.other_partition
      then is_ahead.first_offset < is_ahead.other_offset
    else gapless.layout_of(is_ahead.topic_id, is_ahead.partition_id, is_ahead.first_offset)
      < gapless.layout_of(is_ahead.topic_id, is_ahead.other_partition, is_ahead.other_offset)
  end
$$;
