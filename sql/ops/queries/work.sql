-- name: work
-- The occupation of each worker of a group, as far as the server shows it: a session's transaction is a batch of units,
-- a delivery is a call of an at-least-once handler or a unit in hand of a client. Sessions of other roles show their
-- state to pg_monitor only. Workers of a queue have no partition; their reservations, and those of clients, are rows of
-- their own, as of the newest renewal.
-- returns: gapless.ops.work:GroupWork
select
  l.group_id as "group", l.topic, l.partition_id as partition, l.owner as member, a.pid,
  case
    when l.error is not null then 'stopped'
    when b.is_busy and a.wait_event_type = 'Lock' then 'waiting for a lock'
    when b.is_busy or b.is_called then 'in a unit'
    when l.paused_ts is not null then 'paused'
    when r.mode = 'queue' then 'shared'
    when l.owner_id is null or not l.is_held then 'nobody'
    when a.state is null and m.kind = 'supervisor' then 'not visible'
    else 'at rest'
  end as doing,
  case
    when l.error is not null then l.error_ts
    when b.is_busy and a.wait_event_type = 'Lock' then a.query_start
    when b.is_called then d.began_ts    -- the session looks around while a call continues
    when b.is_busy then a.xact_start
    when l.paused_ts is not null then l.paused_ts
    else coalesce(a.state_change, m.polled_ts)
  end as since,
  case when b.is_busy or b.is_called then coalesce(d.first_offset, o.next_offset) end as "offset",
  greatest(d.attempts, case when o.attempt_offset >= o.next_offset then o.attempts end) as attempts,
  w.units as waiting,
  w.next_ts as next_attempt
from gapless.leases l
join gapless.consumer_group r using (group_id, topic_id)
join gapless.consumer_offsets o using (group_id, topic_id, partition_id)
left join gapless.all_members m on m.member_id = l.owner_id
left join pg_stat_activity a on a.pid = l.worker_pid and a.datname = current_database()
  and not pg_is_in_recovery()    -- it is a process of the primary
cross join lateral (
  select count(*) as units, min(x.first_offset) as first_offset, max(x.attempts) as attempts,
    min(x.began_ts) as began_ts
  from gapless.delivery x
  where x.group_id = l.group_id and x.topic_id = l.topic_id and x.partition_id = l.partition_id and not x.finished
) d
cross join lateral (
  select count(*) as units, min(x.next_attempt_ts) as next_ts
  from gapless.dead_letter x
  where x.group_id = l.group_id and x.topic_id = l.topic_id and x.partition_id = l.partition_id
    and x.state = 'waiting'
) w
left join gapless.lag g on g.group_id = l.group_id and g.topic_id = l.topic_id and g.partition_id = l.partition_id
-- A session may serve several partitions: it is not at work on one that has no event and no unit to try again.
-- A unit of an owner that is gone is in nobody's hand.
cross join lateral (
  select a.xact_start is not null and (g.lag > 0 or w.next_ts <= now()) as is_busy,
    d.units > 0 and l.is_held as is_called
) b
where l.group_id = %(group)s and (%(topic)s::text is null or l.topic = %(topic)s)
union all
(
  select
    l.group_id, t.name, l.partition_id, nullif(q.holder, ''), null, 'in hand', q.since_ts, q.first_offset, q.tries, 0,
    null
  from gapless.lease l
  join gapless.topic t using (topic_id)
  join gapless.queue_range q using (lease_no)
  where l.group_id = %(group)s and (%(topic)s::text is null or t.name = %(topic)s) and q.deadline > now()
  order by q.since_ts
  limit 200
)
union all
select
  %(group)s, null, null, null, a.pid,
  case
    when a.state is null then 'not visible'
    when a.wait_event_type = 'Lock' then 'waiting for a lock'
    when a.xact_start is not null then 'in a unit'
    else 'at rest'
  end,
  coalesce(a.xact_start, a.state_change), null, null, 0, null
from pg_stat_activity a
where a.datname = current_database() and a.application_name = left('gapless/queue worker ' || %(group)s, 63)
order by 2 nulls last, 3, 8 nulls first, 5
