-- Topics with the newest offset of each partition, in the order of their numbers (0: no event yet), including
-- partitions from before the number was lowered; events counts those that ever got an offset.
create or replace view gapless.topics as
select
  t.name as topic, t.partitions, e.events, e.last_offsets, t.retention, t.created_ts, t.topic_id,
  t.dedupe_window
from gapless.topic t
cross join lateral (
  select sum(p.last_offset)::bigint as events,
    array_agg(p.last_offset order by p.partition_id) as last_offsets
  from (
    select n.partition_id, coalesce(
      (
        select s.last_offset from gapless.log_segment s
        where s.topic_id = t.topic_id and s.partition_id = n.partition_id
        order by s.base_offset desc limit 1
      ), 0) as last_offset
    from generate_series(0, greatest(t.partitions, t.partitions_ever) - 1) n (partition_id)
  ) p
) e;

comment on view gapless.topics is 'Topics with the newest offset of each partition.';
