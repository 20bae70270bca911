-- The units of a partition that are parked behind one of it: parked_after() without other partitions.
create or replace function gapless.parked_behind(
  group_id text, topic_id int, partition_id int, first_offset bigint
)
returns table (parked_offset bigint, events int)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select a.parked_offset, a.events
  from gapless.parked_after(
    parked_behind.group_id, parked_behind.topic_id, parked_behind.partition_id,
    parked_behind.first_offset
  ) a
  where a.parked_partition = parked_behind.partition_id
  order by 1
$$;
