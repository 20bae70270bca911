-- The progress of each group: next_offset is its next offset, last_offset the newest in the log (0: none), lag the
-- events between, lag_s the age of the oldest of them, by the database's clock (null when that event is missing).
-- Replays (scratch groups) have no lag: gapless.replays shows them.
-- index: log_segment_pkey and the chunks' primary keys, two look-ups for each partition
create or replace view gapless.lag as
select
  c.group_id, t.name as topic, c.partition_id, c.next_offset,
  coalesce(e.last_offset, 0) as last_offset,
  greatest(e.last_offset - coalesce(c.stopped_at, c.next_offset) + 1, 0) as lag,
  case
    when c.next_offset > coalesce(e.last_offset, 0) then 0
    when o.created_ts is not null then greatest(extract(epoch from now() - o.created_ts), 0)
  end::double precision as lag_s,
  c.topic_id
from gapless.all_offsets c
join gapless.consumer_group g using (group_id, topic_id)
join gapless.topic t using (topic_id)
left join lateral (
  select s.last_offset from gapless.log_segment s
  where s.topic_id = c.topic_id and s.partition_id = c.partition_id
  order by s.base_offset desc
  limit 1
) e on true
left join lateral (
  select m.created_ts
  from (
    select s.message_ids[c.next_offset - s.base_offset + 1] as id
    from gapless.log_segment s
    where s.topic_id = c.topic_id and s.partition_id = c.partition_id
      and s.base_offset <= c.next_offset and c.next_offset <= e.last_offset
    order by s.base_offset desc
    limit 1
  ) n
  join gapless.outbox_message_t m on m.id = n.id
) o on true
where not g.is_scratch;

comment on view gapless.lag is 'How far each group is in each partition, in events and in seconds.';
