-- The timeline on which an offset was given; null when that is not known.
create or replace function gapless.timeline_at(topic_id int, partition_id int, c_offset bigint)
returns int
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
  select s.timeline from gapless.log_segment s
  where s.topic_id = timeline_at.topic_id and s.partition_id = timeline_at.partition_id
    and s.base_offset <= timeline_at.c_offset
  order by s.base_offset desc
  limit 1
$$;
