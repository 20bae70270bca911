-- name: one_look
-- All statements of a look see the same state; it writes nothing.
set transaction isolation level repeatable read, read only

-- name: bounds
-- A look must not make a loaded server worse, nor wait behind a migration, nor for JIT compilation.
select set_config('lock_timeout', '1s', true), set_config('statement_timeout', '5s', true),
  set_config('jit', 'off', true)

-- name: by_index
-- As in sequence_events(): a chunk that was never analysed looks as if a third of it were pending.
select set_config(name, 'off', true)
from unnest(array['enable_seqscan', 'enable_bitmapscan', 'enable_hashjoin']) name

-- name: by_hash
-- Two lists of all partitions, joined in the order of their groups alone, are compared each with each.
select set_config('enable_hashjoin', 'on', true)

-- name: server
-- The database's clock and its horizon: a transaction that stays open holds back vacuum, and the events that it
-- published. Of other roles' transactions only pg_monitor sees the age.
-- returns: gapless.status.snapshot:Server
select
  now() as taken_ts,
  current_database()::text as database,
  split_part(current_setting('server_version'), ' ', 1) as version,
  pg_postmaster_start_time() as started_ts,
  case
    when x.began_ts is not null then greatest(extract(epoch from now() - x.began_ts), 0)
  end::double precision as oldest_transaction_s,
  x.program as oldest_transaction,
  pg_stat_get_db_numbackends(d.oid) as sessions,
  pg_stat_get_db_xact_commit(d.oid) as commits,
  pg_stat_get_db_xact_rollback(d.oid) as rollbacks
from pg_database d
left join lateral (
  select a.xact_start as began_ts, a.application_name as program
  from pg_stat_activity a
  where a.datid = d.oid and a.pid <> pg_backend_pid() and a.backend_type = 'client backend'
    and a.xact_start is not null
  union all
  select p.prepared, 'prepared transaction ' || p.gid
  from pg_prepared_xacts p
  where p.database = d.datname
  order by 1
  limit 1
) x on true
where d.datname = current_database()

-- name: sequencer
-- pid is the session that has the role, null when no session has; asleep: the next publisher wakes it. needs_rebase:
-- restored into another cluster, and not run since.
-- returns: gapless.status.snapshot:Sequencing
select
  s.run, s.events, s.ran_ts, r.pid,
  coalesce(r.is_asleep, false) as is_asleep,
  s.system_identifier <> c.system_identifier
    or pg_snapshot_xmax(s.snapshot) > pg_snapshot_xmax(pg_current_snapshot()) as needs_rebase
from pg_control_system() c
cross join lateral (
  select n.* from gapless.sequencer n order by n.run desc limit 1
) s
cross join lateral (
  select
    min(k.pid) filter (where k.objid = 3) as pid,
    bool_or(k.objid = 2 and k.mode = 'ExclusiveLock') as is_asleep
  from pg_locks k
  where k.locktype = 'advisory' and k.classid = 7427001::oid and k.objsubid = 2 and k.granted
    and k.objid in (2, 3)
    and k.database = (select d.oid from pg_database d where d.datname = current_database())
) r

-- name: topics
-- returns: gapless.status.snapshot:TopicEnd
select v.topic, v.partitions, v.events, v.last_offsets
from gapless.topics v
order by v.topic

-- name: pending
-- Committed, but without an offset yet: the events that the next run of sequence_events() will find, except for
-- stragglers of a re-base. Counts at most 10000 (COUNT_MAX).
-- returns: gapless.status.snapshot:Pending
-- index: outbox_message_xid
with
last as materialized (
  select
    pg_snapshot_xmax(s.snapshot) as xmax,
    s.floor_id,
    -- Only those that have ended: rows of an open one would be visited in vain.
    array(
      select x from pg_snapshot_xip(s.snapshot) x
      where pg_visible_in_snapshot(x, pg_current_snapshot())
    ) as ended
  from gapless.sequencer s
  order by s.run desc
  limit 1
),
-- MUST order by xid: otherwise the planner might choose the index on id, and read everything from the floor on.
found as materialized (
  (
    select o.topic_id, o.created_ts
    from gapless.outbox_message_t o
    where o.xid >= (select l.xmax from last l) and o.id > (select l.floor_id from last l)
    order by o.xid
    limit 10000
  )
  union all
  (
    select o.topic_id, o.created_ts
    from gapless.outbox_message_t o
    where o.xid = any ((select l.ended from last l)::xid8[])
      and o.id > (select l.floor_id from last l)
    order by o.xid
    limit 10000
  )
  limit 10000
)
select
  coalesce(t.name, '(no topic)') as topic,
  count(*) as events,
  greatest(extract(epoch from now() - min(f.created_ts)), 0)::double precision as oldest_s
from found f
left join gapless.topic t using (topic_id)
group by 1
order by 1

-- name: members
-- returns: gapless.status.snapshot:Presence
select v.member_id, v.name, v.state, v.up_s, v.beat_s, v.ttl_s, v.is_present, v.is_suspected,
  v.capacity, v.owned, v.wanted, v.groups, v.revoked_role, v.kind,
  v.version, v.python
from gapless.members v
order by v.member_no

-- name: evictions
-- The newest first: the reasons why members are gone.
-- returns: gapless.status.snapshot:Eviction
select e.member_id, e.name, e.reason, e.evicted_ts
from gapless.eviction e
order by e.evicted_ts desc
limit 20

-- name: partitions
-- Units set aside are counted, up to 10000 for each partition (COUNT_MAX), with their events. Workers of queues have no
-- lease: their sessions are counted.
-- returns: gapless.status.snapshot:Standing
with queues as materialized (
  select q.group_id, q.topic, q.partition_id, q.open, q.in_hand, q.in_work, q.lapsed, q.finished_ahead, q.workers,
    m.outcome, m.first_offset, m.last_offset, r.lapsed_ts
  from (
    select g.group_id, g.workers, s.*, t.topic_id, count(*) over () as partitions
    from (
      -- Once a group: listing the sessions costs as much as there are sessions.
      select c.group_id, w.workers from (
        select n.group_id from gapless.consumer_group n where n.mode = 'queue' and not n.is_scratch group by 1
      ) c
      left join (
        select a.application_name, count(*) as workers from pg_stat_activity a
        where a.datname = current_database()
        group by 1
      ) w on w.application_name = left('gapless/queue worker ' || c.group_id, 63)
    ) g
    cross join lateral gapless.queue_state(g.group_id) s
    join gapless.topic t on t.name = s.topic
  ) q
  join gapless.lease l
    on l.group_id = q.group_id and l.topic_id = q.topic_id and l.partition_id = q.partition_id
  -- MUST look for a bounded number of events in all, whatever the number of partitions.
  -- WHERE, not ON: a function that is joined is called whatever ON says.
  left join lateral (
    select m.*
    from gapless.queue_missing(
      l.topic_id, l.partition_id, l.lease_no, (2000 / greatest(q.partitions, 20))::int
    ) m
    where q.open > 0 or q.lapsed > 0
  ) m on true
  -- Of a range that was given back, the deadline is -infinity.
  left join lateral (
    select min(greatest(o.deadline, o.since_ts)) as lapsed_ts from gapless.queue_range o
    where q.lapsed > 0 and o.lease_no = l.lease_no and o.deadline <= clock_timestamp()
  ) r on true
)
select
  e.group_id, e.topic, e.partition_id, e.owner, e.target, e.owner_id, e.target_id, e.epoch,
  e.is_held, coalesce(g.next_offset, 0) as next_offset, coalesce(g.last_offset, 0) as last_offset,
  coalesce(g.lag, 0) as lag, g.lag_s,
  -- There may be no worker to report it.
  coalesce(
    e.error, 'stopped: the group ' || y.problem || ': ' || y.remedy,
    format(
      case u.outcome
        when 'overrun' then 'stopped: retention has dropped offsets %s to %s'
        when 'hole' then 'stopped: offsets %s to %s are missing from the log'
      end || ': gapless skip %s/%s/%s@%1$s continues without them',
      u.first_offset, u.last_offset, e.group_id, e.topic, e.partition_id
    )) as error,
  e.error_ts, e.paused_ts, e.pause,
  a.dead_letters, a.dead_events, a.waiting, a.parked, a.aside_ts,
  coalesce(w.waits_for, '{}') as waits_for,
  case when u.group_id is null then 'ordered' else 'queue' end as mode,
  coalesce(u.workers, 0) as workers,
  coalesce(u.open, 0) as open,
  coalesce(u.in_hand, 0) as in_hand,
  coalesce(u.in_work, 0) as in_work,
  coalesce(u.lapsed, 0) as lapsed,
  nullif(u.lapsed_ts, '-infinity') as lapsed_ts,
  coalesce(u.finished_ahead, 0) as finished_ahead
from gapless.leases e
left join queues u using (group_id, topic, partition_id)
-- OFFSET 0: each is computed once, for all partitions. Asked for one, it would read those of its group.
left join (select * from gapless.lag offset 0) g using (group_id, topic_id, partition_id)
left join gapless.unplaced_groups y using (group_id, topic_id, partition_id)
left join (select * from gapless.waits offset 0) w using (group_id, topic_id, partition_id)
cross join lateral (
  select
    count(*) filter (where counted.state = 'dead') as dead_letters,
    coalesce(sum(counted.events) filter (where counted.state = 'dead'), 0)::bigint as dead_events,
    count(*) filter (where counted.state = 'waiting') as waiting,
    count(*) filter (where counted.state = 'parked') as parked,
    min(counted.first_failed_ts) as aside_ts
  from (
    select d.state, d.events, d.first_failed_ts from gapless.dead_letter d
    where d.group_id = e.group_id and d.topic_id = e.topic_id and d.partition_id = e.partition_id
      and d.state in ('dead', 'waiting', 'parked')
    limit 10000
  ) counted
) a
order by e.group_id, e.topic, e.partition_id

-- name: changes
-- returns: gapless.status.snapshot:Change
select v.group_id, v.topic, v.partitions_before, v.partitions, v.unfinished, v.events
from gapless.changes v
order by v.group_id, v.topic

-- name: letters
-- The newest dead letters, newest first.
-- returns: gapless.status.snapshot:RecentLetter
-- index: dead_letter_failed
select d.group_id, t.name as topic, d.partition_id, d.first_offset, d.attempts, left(d.reason, 500) as error,
  d.last_failed_ts
from gapless.dead_letter d
join gapless.topic t using (topic_id)
where d.state = 'dead'
order by d.last_failed_ts desc
limit 5

-- name: foreign_locks
-- returns: gapless.status.strangers:ForeignLockHolder
select v.pid, v.role, v.holds from gapless.foreign_locks v where v.granted order by v.pid

-- name: obstacles
-- returns: gapless.status.strangers:Obstacle
select v.kind, v.name, v.since_s, v.problem, v.remedy from gapless.obstacles v order by v.since_s desc

-- name: unrouted
-- Events of unknown topic ids, the most first; at most about a hundred rows.
-- returns: gapless.status.strangers:Unrouted
select
  u.topic_id,
  u.events,
  greatest(extract(epoch from now() - u.since_ts), 0)::double precision as since_s
from gapless.unrouted u
order by u.events desc, u.topic_id

-- name: held
-- The groups for which the oldest chunk stays, when nothing else keeps it, and for how long yet; and the content of the
-- default chunk.
-- returns: gapless.status.snapshot:HeldLog
select r.reason, (
  select greatest(extract(epoch from now() - max(e.newest_ts + t.retention)), 0)::double precision
  from gapless.chunk_end e
  join gapless.topic t using (topic_id)
  where e.upto = o.upto
) as since_s
from (
  select min(c.upto) as upto
  from gapless.chunk c, gapless.retention_state s
  where c.upto > s.dropped_upto
) o
cross join lateral (
  select w.reason, bool_and(w.is_behind) over () as is_behind
  from gapless.reasons_to_keep(o.upto) w
) r
where r.is_behind
union all
select d.chunk || ': ' || d.reason, null from gapless.default_chunk d
order by 1

-- name: chunks
-- Without their sizes: those would wait behind a chunk that is being dropped.
select count(*) as chunks from gapless.chunk
