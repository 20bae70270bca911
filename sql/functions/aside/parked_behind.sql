-- The units of a partition that are parked behind one of it: parked_after() without other partitions.
create or replace function gapless.parked_behind(
  _group_id text, _topic_id int, _partition_id int, _first_offset bigint
)
returns table (parked_offset bigint, events int)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select a.parked_offset, a.events
  from gapless.parked_after(_group_id, _topic_id, _partition_id, _first_offset) a
  where a.parked_partition = _partition_id
  order by 1
$$;
