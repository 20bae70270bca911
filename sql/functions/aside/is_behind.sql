-- Is a key held by a unit that comes before this one?
create or replace function gapless.is_behind(
  group_id text, topic_id int, partition_id int, first_offset bigint, key_digest bytea
)
returns boolean
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select exists (
    select from gapless.key_heads(
      is_behind.group_id, is_behind.topic_id, is_behind.partition_id, is_behind.key_digest
    ) h
    where gapless.is_ahead(
      is_behind.topic_id, h.in_partition, h.at_offset, is_behind.partition_id,
      is_behind.first_offset
    )
  )
$$;
