-- The layout that placed an offset; 0 when its segment is gone, for then it is older than all others.
create or replace function gapless.layout_of(topic_id int, partition_id int, c_offset bigint)
returns int
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(
    (
      select s.layout from gapless.log_segment s
      where s.topic_id = layout_of.topic_id and s.partition_id = layout_of.partition_id
        and s.base_offset <= layout_of.c_offset
      order by s.base_offset desc limit 1
    ), 0)
$$;
