-- Return the oldest offset of a partition that retention has not dropped.
create or replace function gapless.log_first(_topic_id int, _partition_id int) returns bigint
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select coalesce(
    (
      select l.first_offset from gapless.log_start l
      where l.topic_id = _topic_id and l.partition_id = _partition_id
    ), 1)
$$;
