-- Partitions whose next event was placed by a newer number of partitions than the group has begun with there, and the
-- partitions for which it waits, by blockers() (none: it is about to begin). A topic with layout 0 never changed: its
-- offsets are not read.
create or replace view gapless.waits as
select
  c.group_id, t.name as topic, c.partition_id,
  array(
    select b.blocker
    from gapless.blockers(c.group_id, c.topic_id, c.partition_id, n.layout) b
    order by b.blocker
  ) as waits_for,
  c.topic_id
from gapless.all_offsets c
join gapless.topic t on t.topic_id = c.topic_id and t.layout > c.layout and t.layout > 0
cross join lateral (
  select s.layout, s.last_offset from gapless.log_segment s
  where s.topic_id = c.topic_id and s.partition_id = c.partition_id
    and s.base_offset <= c.next_offset
  order by s.base_offset desc limit 1
) n
where n.layout > c.layout and n.last_offset >= c.next_offset;

comment on view gapless.waits is 'Partitions that wait for others after a change of their number.';
