-- Return the present numbers of each group and topic that is not a replay's, for record_history(). done: the sum of the
-- offsets that the group has passed (a new partition adds none), of a queue with the events that are finished above its
-- floor, which one long job holds; of a topic (group_id null) of the last ones. oldest: in seconds since 1970, of the
-- oldest unhandled event. Dead letters are counted up to 100000 of a group. members: supervisors that own a partition;
-- of a queue: that serve the group.
-- index: a few look-ups for each partition, as in the views all_offsets and lag; the end of the log once a partition;
-- queue_range_pkey from the floor on
create or replace function gapless.sample_history()
returns table (
  topic_id int, group_id text, done bigint, lag bigint, oldest bigint, dead_letters bigint, members bigint
)
language sql stable security definer set search_path = pg_catalog, pg_temp set jit = off as $$
  with ends as materialized (
    select t.topic_id, p.partition_id, coalesce((
      select s.last_offset from gapless.log_segment s
      where s.topic_id = t.topic_id and s.partition_id = p.partition_id
      order by s.base_offset desc limit 1
    ), 0) as last_offset
    from gapless.topic t
    cross join lateral generate_series(0, greatest(t.partitions, t.partitions_ever) - 1) p (partition_id)
  ),
  standings as materialized (
    select c.group_id, c.topic_id, c.partition_id, c.next_offset, e.last_offset,
      greatest(e.last_offset - coalesce(c.stopped_at, c.next_offset) + 1, 0) as lag
    from gapless.all_offsets c
    join ends e using (topic_id, partition_id)
  ),
  -- One of several groups at the same event looks it up for all.
  waiting as materialized (
    select n.topic_id, n.partition_id, n.next_offset, floor(extract(epoch from m.created_ts))::bigint as oldest
    from (select distinct s.topic_id, s.partition_id, s.next_offset from standings s where s.lag > 0) n
    cross join lateral (
      select g.message_ids[n.next_offset - g.base_offset + 1] as id
      from gapless.log_segment g
      where g.topic_id = n.topic_id and g.partition_id = n.partition_id and g.base_offset <= n.next_offset
      order by g.base_offset desc limit 1
    ) i
    join gapless.outbox_message_t m on m.id = i.id
  ),
  ahead as materialized (
    select s.group_id, s.topic_id, sum(r.last_offset - r.first_offset + 1)::bigint as events
    from standings s
    join gapless.consumer_group g using (group_id, topic_id)
    join gapless.lease l using (group_id, topic_id, partition_id)
    join gapless.queue_range r on r.lease_no = l.lease_no and r.first_offset >= s.next_offset
    where g.mode = 'queue' and r.deadline is null
    group by s.group_id, s.topic_id
  )
  select e.topic_id, null, sum(e.last_offset)::bigint, null, null, null, null
  from ends e
  group by e.topic_id
  union all
  select g.topic_id, g.group_id, s.done + coalesce(a.events, 0), s.lag, s.oldest, d.letters,
    case when g.mode = 'queue' then q.members else coalesce(o.members, 0) end
  from gapless.consumer_group g
  join (
    select s.group_id, s.topic_id, sum(s.next_offset - 1)::bigint as done, sum(s.lag)::bigint as lag,
      min(w.oldest) filter (where s.lag > 0) as oldest
    from standings s
    left join waiting w using (topic_id, partition_id, next_offset)
    group by s.group_id, s.topic_id
  ) s using (group_id, topic_id)
  left join (
    select l.group_id, l.topic_id, count(distinct l.owner) as members
    from gapless.lease l
    where l.owner is not null
    group by l.group_id, l.topic_id
  ) o using (group_id, topic_id)
  left join ahead a using (group_id, topic_id)
  cross join lateral (
    select count(*) as members from gapless.member_group m
    where g.mode = 'queue' and m.group_id = g.group_id and m.topic_id = g.topic_id
  ) q
  cross join lateral (
    select count(*) as letters from (
      select from gapless.dead_letter x
      where x.group_id = g.group_id and x.topic_id = g.topic_id and x.state = 'dead'
      limit 100000
    ) x
  ) d
  where not g.is_scratch
$$;
