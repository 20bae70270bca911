-- Return the ends of the partitions of some topics, in one snapshot: the log holds first_offset to next_offset - 1; for
-- a partition without events both are 1. Partitions are those that log_segment knows, whatever the topic has now, and
-- those that the topic has.
--   select * from gapless.ends(array['orders', 'payments']);
create or replace function gapless.ends(topics text[])
returns table (topic text, topic_id int, partition_id int, first_offset bigint, next_offset bigint)
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
  with recursive
  wanted as (
    select t.topic_id, t.name, t.partitions
    from gapless.topic t
    where t.name = any (ends.topics)
  ),
  -- One look-up for each partition, not one for each segment.
  known as (
    select w.topic_id, (
      select s.partition_id from gapless.log_segment s
      where s.topic_id = w.topic_id
      order by s.partition_id limit 1
    ) as partition_id
    from wanted w
    union all
    select k.topic_id, (
      select s.partition_id from gapless.log_segment s
      where s.topic_id = k.topic_id and s.partition_id > k.partition_id
      order by s.partition_id limit 1
    )
    from known k
    where k.partition_id is not null
  ),
  every as (
    select k.topic_id, k.partition_id from known k where k.partition_id is not null
    union
    select w.topic_id, p from wanted w, generate_series(0, w.partitions - 1) p
  )
  select
    w.name,
    e.topic_id,
    e.partition_id,
    l.first_offset,
    l.end_offset
  from every e
  join wanted w using (topic_id)
  cross join lateral gapless.log_ends(e.topic_id, e.partition_id) l
  order by w.name, e.partition_id
$$;
