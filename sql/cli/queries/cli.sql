-- name: topics
-- returns: gapless.ops.topics:TopicInfo
select
  t.topic, t.partitions, t.events,
  (
    select count(*) from gapless.consumer_group g where g.topic_id = t.topic_id
  ) as groups,
  coalesce(justify_hours(t.retention)::text, 'forever') as retention,
  justify_hours(t.dedupe_window)::text as dedupe_window,
  extract(epoch from t.retention)::float8 as retention_s,
  coalesce((select x.direct from gapless.topic x where x.name = t.topic), false) as direct,
  coalesce((select x.compacted from gapless.topic x where x.name = t.topic), false) as compacted,
  (select x.archive from gapless.topic x where x.name = t.topic) as archive,
  coalesce((select x.overrun from gapless.topic x where x.name = t.topic), '{}') as overrun,
  t.created_ts as created
from gapless.topics t
order by t.topic

-- name: set_direct
select gapless.set_direct(%(topic)s)

-- name: unrouted
-- returns: gapless.ops.topics:UnroutedId
select u.topic_id, u.events, u.since_ts as since from gapless.unrouted u order by u.topic_id

-- name: topic_partitions
-- The partitions of a topic: log_end_offset is the offset that the next event gets, as in Kafka.
-- Old partitions are from before the topic's number was lowered.
-- returns: gapless.ops.topics:TopicPartition
select
  t.name as topic, p as partition, f.first_offset as log_start_offset,
  coalesce(l.last_offset, 0) + 1 as log_end_offset,
  coalesce(l.last_offset - f.first_offset + 1, 0) as events,
  (coalesce(l.last_offset - f.first_offset + 1, 0) * coalesce(m.event_bytes, 0))::bigint as about_bytes,
  case when p < t.partitions then 'active' else 'old' end as state
from gapless.topic t
cross join lateral (select gapless.mean_event_bytes(t.topic_id) as event_bytes offset 0) m
cross join lateral generate_series(0, greatest(t.partitions, t.partitions_ever) - 1) p
cross join lateral (select gapless.log_first(t.topic_id, p) as first_offset) f
left join lateral (
  select s.last_offset from gapless.log_segment s
  where s.topic_id = t.topic_id and s.partition_id = p
  order by s.base_offset desc limit 1
) l on true
where t.name = %(topic)s
order by p

-- name: changes
-- returns: gapless.ops.topics:TopicChange
select v.group_id as "group", v.topic, v.partitions_before, v.partitions, v.unfinished, v.events
from gapless.changes v
where %(topic)s::text is null or v.topic = %(topic)s
order by v.topic, v.group_id

-- name: groups
-- Every group and topic. Empty: no member; Stable: every partition is where the plan puts it; Paused: all partitions
-- are. A standby sees no workers.
-- returns: gapless.ops.groups:GroupInfo
select
  g.group_id as "group", t.name as topic, g.mode,
  case
    when exists (
      select from gapless.group_pause p
      where p.group_id = g.group_id and p.topic_id = g.topic_id and p.partition_id = -1
    ) then 'Paused'
    when m.members = 0 then 'Empty'
    when g.mode = 'queue' then 'Stable'
    when l.settled = l.leases then 'Stable'
    else 'Rebalancing'
  end as state,
  m.members,
  case when g.mode = 'queue' and not pg_is_in_recovery() then (
    select count(*) from pg_stat_activity a
    where a.datname = current_database()
      and a.application_name = left('gapless/queue worker ' || g.group_id, 63)
  ) end as workers,
  t.partitions,
  o.lag,
  (
    select count(*) from gapless.dead_letter d
    where d.group_id = g.group_id and d.topic_id = g.topic_id and d.state = 'dead'
  ) as dead_letters,
  (
    select case
        when f.subscribed then (
          select 'subscriptions: ' || count(*) from gapless.subscription s
          where s.group_id = f.group_id and s.topic_id = f.topic_id
        )
        else concat_ws(' ', array_to_string(f.event_types, ', '), 'where ' || f.condition::text)
      end
    from gapless.group_filter f
    where f.group_id = g.group_id and f.topic_id = g.topic_id
  ) as takes
from gapless.consumer_group g
join gapless.topic t using (topic_id)
cross join lateral (
  select count(*) as members from gapless.member_group mg
  where mg.group_id = g.group_id and mg.topic_id = g.topic_id
) m
cross join lateral (
  select count(*) filter (where x.owner = x.target) as settled, count(*) as leases
  from gapless.lease x
  where x.group_id = g.group_id and x.topic_id = g.topic_id
) l
cross join lateral (
  select coalesce(sum(x.lag), 0)::bigint as lag from gapless.lag x
  where x.group_id = g.group_id and x.topic = t.name
) o
where not g.is_scratch
order by g.group_id, t.name

-- name: group_astray
-- returns: gapless.ops.doctor.places:UnplacedGroup
select a.group_id, a.problem, a.remedy
from gapless.unplaced_groups a
where a.group_id = %(group)s and a.topic = %(topic)s
order by a.partition_id

-- name: group_partitions
-- A group's partitions: current_offset is the group's next offset, as in Kafka.
-- returns: gapless.ops.groups:GroupPartition
select
  o.group_id as "group", o.topic, o.partition_id as partition, o.next_offset as current_offset,
  o.last_offset + 1 as log_end_offset,
  o.lag, l.owner as member, l.epoch, l.error
from gapless.lag o
left join gapless.leases l using (group_id, topic_id, topic, partition_id)
join gapless.topic t using (topic_id)
where o.group_id = %(group)s and (%(topic)s::text is null or o.topic = %(topic)s)
  and (l.partition_id is not null or o.partition_id < t.partitions)
order by o.topic, o.partition_id

-- name: losses
-- The data that uninstalling would lose; events are those that ever got an offset.
-- returns: gapless.ops.install:Losses
select
  (select count(*) from gapless.topics) as topics,
  (select coalesce(sum(t.events), 0)::bigint from gapless.topics t) as events,
  (select count(distinct g.group_id) from gapless.consumer_group g) as groups,
  (select count(*) from gapless.dead_letter d where d.state <> 'redriven') as dead_letters,
  (select count(*) from gapless.member) as members

-- name: trace
-- returns: gapless.features.chains.ops:ChainUnit
select
  t.node, t.parent, t.is_asked, t.group_id as "group", t.cause, t.detached, t.topic,
  t.partition_id as partition, t.first_offset, t.last_offset, t.events, t.event_types, t.keys,
  t.published_as as transaction_id, t.published_ts as published, t.state, t.groups, t.left_out
from gapless.trace(%(transaction_id)s, %(units_max)s) t
order by t.node

-- name: transaction_fate
select gapless.transaction_fate(%(transaction_id)s::uuid)

-- name: is_installed
select to_regnamespace('gapless') is not null

-- name: chunk_config
select c.chunk_events, c.chunks_ahead from gapless.log_config c
