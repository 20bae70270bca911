-- The oldest offset that is there, and the offset that the next event gets.
create or replace function gapless.log_ends(
  topic_id int, partition_id int, out first_offset bigint, out end_offset bigint
)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select
    gapless.log_first(log_ends.topic_id, log_ends.partition_id),
    coalesce(
      (
        select s.last_offset from gapless.log_segment s
        where s.topic_id = log_ends.topic_id and s.partition_id = log_ends.partition_id
        order by s.base_offset desc limit 1
      ), 0) + 1
$$;
