-- Return the segments of a partition from the one that holds next_offset on, at most so many.
create or replace function gapless.segments_from(
  _topic_id int, _partition_id int, _next_offset bigint, _segments_max bigint
) returns setof gapless.log_segment
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
  select s.*
  from gapless.log_segment s
  where s.topic_id = _topic_id and s.partition_id = _partition_id
    and s.base_offset >= coalesce(
      (
        select b.base_offset from gapless.log_segment b
        where b.topic_id = _topic_id and b.partition_id = _partition_id
          and b.base_offset <= _next_offset
        order by b.base_offset desc limit 1
      ), 0)
    and s.last_offset >= _next_offset
  order by s.base_offset
  limit _segments_max
$$;
