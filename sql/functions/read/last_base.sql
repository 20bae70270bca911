-- The base_offset of the newest segment of a partition.
create or replace function gapless.last_base(topic_id int, partition_id int)
returns bigint
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select s.base_offset from gapless.log_segment s
  where s.topic_id = last_base.topic_id and s.partition_id = last_base.partition_id
  order by s.base_offset desc limit 1
$$;
