-- Return the timeline on which an offset was given; null when it is unknown.
create or replace function gapless.timeline_at(_topic_id int, _partition_id int, _c_offset bigint) returns int
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
  select s.timeline from gapless.log_segment s
  where s.topic_id = _topic_id and s.partition_id = _partition_id and s.base_offset <= _c_offset
  order by s.base_offset desc
  limit 1
$$;
