-- Return the oldest offset that is there, and the offset that the next event gets.
create or replace function gapless.log_ends(
  _topic_id int, _partition_id int, out first_offset bigint, out end_offset bigint
)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select
    gapless.log_first(_topic_id, _partition_id),
    coalesce(
      (
        select s.last_offset from gapless.log_segment s
        where s.topic_id = _topic_id and s.partition_id = _partition_id
        order by s.base_offset desc limit 1
      ), 0) + 1
$$;
