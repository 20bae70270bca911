-- Groups that have not finished a change of a topic's number of partitions: the number on which they still work, the
-- present number, and the partitions and events that are to be finished first.
create or replace view gapless.changes as
select
  c.group_id,
  t.name as topic,
  (
    select l.partitions from gapless.layout l
    where l.topic_id = t.topic_id and l.layout = min(b.layout)
  ) as partitions_before,
  t.partitions,
  array_agg(c.partition_id order by c.partition_id) as unfinished,
  sum(b.last_offset - c.next_offset + 1)::bigint as events,
  t.topic_id
from gapless.topic t
join gapless.all_offsets c using (topic_id)
cross join lateral (
  select min(x.layout) as layout, max(x.last_offset) as last_offset from gapless.barrier x
  where x.topic_id = t.topic_id and x.partition_id = c.partition_id and x.last_offset >= c.next_offset
) b
where t.layout > 0 and b.layout is not null
group by c.group_id, t.topic_id;

comment on view gapless.changes is
  'Groups that still work on events of an earlier number of partitions, and how many.';
