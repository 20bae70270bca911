-- Return the layout that placed an offset; 0 when its segment is gone, because then it is older than all others.
create or replace function gapless.layout_of(_topic_id int, _partition_id int, _c_offset bigint) returns int
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select coalesce(
    (
      select s.layout from gapless.log_segment s
      where s.topic_id = _topic_id and s.partition_id = _partition_id and s.base_offset <= _c_offset
      order by s.base_offset desc limit 1
    ), 0)
$$;
