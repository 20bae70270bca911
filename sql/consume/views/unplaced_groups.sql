-- Partitions in which a group has no place to continue from, with the remedy: its offset is beyond the end of the log,
-- or its row is gone. They stand still, whatever worker owns them (claim_at()).
-- index: log_segment_pkey, a look-up for each partition
create or replace view gapless.unplaced_groups as
select
  l.group_id, t.name as topic, l.partition_id,
  case
    when c.group_id is null then
      format('has lost its offset of %s/%s: its row of consumer_offsets is gone', t.name, l.partition_id)
    else
      format(
        'is at offset %s of %s/%s, beyond the end of the log, where the next event %s offset %s',
        c.next_offset, t.name, l.partition_id,
        case when c.stopped_at is null then 'gets' else 'had' end,
        coalesce(c.stopped_at, e.end_offset)
      )
  end as problem,
  case
    when c.group_id is null then
      format(
        'gapless seek %1$s/%2$s/%3$s --earliest --pause --yes handles all there is once more, @OFFSET continues there',
        l.group_id, t.name, l.partition_id
      )
    else
      format(
        'gapless seek %s/%s/%s@%s --pause --yes', l.group_id, t.name, l.partition_id,
        coalesce(c.stopped_at, e.end_offset)
      )
  end as remedy,
  l.topic_id
from gapless.lease l
join gapless.topic t using (topic_id)
join gapless.consumer_group g using (group_id, topic_id)
left join lateral (    -- as all_offsets, which would go through the group's rows for each
  select o.* from gapless.consumer_offsets o
  where o.group_id = l.group_id and o.topic_id = l.topic_id
    and o.partition_id between l.partition_id and l.partition_id
  order by o.partition_id desc limit 1
) c on true
cross join lateral (
  select coalesce(
    (
      select s.last_offset from gapless.log_segment s
      where s.topic_id = l.topic_id and s.partition_id = l.partition_id
      order by s.base_offset desc limit 1
    ), 0) + 1 as end_offset
) e
where not g.is_scratch
  and (c.group_id is null or c.stopped_at is not null or c.next_offset > e.end_offset);

comment on view gapless.unplaced_groups is
  'Partitions in which a group has no place from which it could continue, and the command that helps.';
