-- Return the base_offset of the newest segment of a partition.
create or replace function gapless.last_base(_topic_id int, _partition_id int) returns bigint
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select s.base_offset from gapless.log_segment s
  where s.topic_id = _topic_id and s.partition_id = _partition_id
  order by s.base_offset desc limit 1
$$;
