-- name: server
-- returns: gapless.ops.doctor.server:ServerFacts
select
  current_setting('server_version') as version,
  current_user::text as role,
  current_setting('server_encoding') as encoding,
  current_setting('synchronous_commit') as synchronous_commit,
  current_setting('fsync') as fsync,
  current_setting('full_page_writes') as full_page_writes,
  current_setting('autovacuum') as autovacuum,
  coalesce(current_setting('client_connection_check_interval', true), '0') as check_interval

-- name: overridden
-- Defaults of transactions, of this database or role, that guard_session has overridden.
select s.name, s.reset_val
from pg_settings s
where s.name in ('default_transaction_read_only', 'default_transaction_isolation') and s.reset_val <> s.setting
order by s.name desc

-- name: connections
-- The sessions that the server admits, those in use, and those of all groups when every partition has a worker.
-- returns: gapless.ops.doctor.server:Connections
select
  least(
    m.server_max,
    nullif(r.rolconnlimit, -1),
    nullif(d.datconnlimit, -1)
  ) as admitted,
  (
    select count(*) from pg_stat_activity a where a.backend_type = 'client backend'
  ) as taken,
  (
    select count(*) from pg_stat_activity a
    where a.datname = current_database() and starts_with(a.application_name, 'gapless/')
  ) as taken_by_gapless,
  (
    select coalesce(sum(t.partitions), 0)::bigint
    from gapless.consumer_group g
    join gapless.topic t using (topic_id)
  ) as partitions,
  (
    select count(*) from pg_stat_activity a
    where a.datname = current_database() and starts_with(a.application_name, 'gapless/worker ')
  ) as workers,
  (select count(*) from gapless.member m where m.kind = 'supervisor') as members,
  (select coalesce(sum(m.sessions), 0)::bigint from gapless.member m) as own
from (
  select current_setting('max_connections')::int
    - current_setting('superuser_reserved_connections')::int
    - coalesce(current_setting('reserved_connections', true), '0')::int as server_max
) m
join pg_roles r on r.rolname = current_user
join pg_database d on d.datname = current_database()

-- name: unplaced_groups
-- returns: gapless.ops.doctor.places:UnplacedGroup
select a.group_id, a.problem, a.remedy from gapless.unplaced_groups a order by a.group_id, a.topic, a.partition_id

-- name: check_leases
select invariant, place, problem from gapless.check_leases() order by 1, 2

-- name: oldest
-- The session that holds the horizon: the one with the oldest snapshot or transaction. Other roles' sessions are hidden
-- without pg_read_all_stats.
-- returns: gapless.ops.doctor.server:Oldest
select
  a.pid,
  a.usename::text as role,
  a.application_name as application,
  coalesce(a.state, a.backend_type) as state,
  extract(epoch from clock_timestamp() - a.xact_start)::float8 as age_s,
  greatest(age(a.backend_xmin), age(a.backend_xid)) as xids
from pg_stat_activity a
where (a.backend_xmin is not null or a.backend_xid is not null)
  and a.application_name <> 'gapless/doctor'
order by a.xact_start nulls last, 6 desc
limit 1

-- name: slots
-- Replication slots that hold the horizon, the worst first.
-- returns: gapless.ops.doctor.server:Slot
select
  s.slot_name::text as name,
  s.active,
  greatest(age(s.xmin), age(s.catalog_xmin)) as xids
from pg_replication_slots s
where s.xmin is not null
order by 3 desc

-- name: prepared
-- Prepared transactions of this database, the oldest first.
-- returns: gapless.ops.doctor.server:Prepared
select
  p.gid,
  p.owner::text as role,
  extract(epoch from clock_timestamp() - p.prepared)::float8 as age_s
from pg_prepared_xacts p
where p.database = current_database()
order by p.prepared

-- name: notify_queue
-- The fill of the server's queue of notifications, 0 to 1.
select pg_notification_queue_usage()

-- name: clock
select clock_timestamp()

-- name: notify
select pg_notify(%(channel)s, '')

-- name: missing_roles
select coalesce(array_agg(w.name order by w.name), '{}')
from unnest(array['gapless_consumer', 'gapless_operator', 'gapless_producer']) w (name)
where not exists (select from pg_roles r where r.rolname = w.name)

-- name: privileges
-- The actions that are allowed to this role, by the rights of the three roles.
-- returns: gapless.ops.doctor.schema:Privileges
select
  has_any_column_privilege('gapless.outbox_message_t', 'insert')
    and has_sequence_privilege('gapless.outbox_message_id_seq', 'usage') as publish,
  has_table_privilege('gapless.log_segment', 'select')
    and (
      select bool_and(has_function_privilege(p.oid, 'execute'))
      from pg_proc p
      where p.pronamespace = n.oid and p.proname in ('claim', 'acquire', 'sequence_events')
    ) as consume,
  pg_has_role(n.nspowner, 'usage') as upgrade
from pg_namespace n
where n.nspname = 'gapless'

-- name: terminator
-- Functions that end the session of an evicted owner run as the schema's owner: whether it may end sessions of this
-- role.
-- returns: gapless.ops.doctor.schema:Terminator
select
  o.rolname::text as owner,
  o.rolsuper
    or not me.rolsuper and (
      pg_has_role(o.oid, me.oid, 'usage') or pg_has_role(o.oid, 'pg_signal_backend', 'usage')
    ) as may
from pg_proc p
join pg_roles o on o.oid = p.proowner
join pg_roles me on me.rolname = current_user
where p.pronamespace = 'gapless'::regnamespace and p.proname = 'break_zombie'

-- name: wake_trigger
-- The state of the trigger that wakes the sequencer; no row when there is none.
select t.tgenabled::text
from pg_trigger t
where t.tgrelid = 'gapless.outbox_message_t'::regclass and t.tgname = 'wake_sequencer'

-- name: restored
-- Whether data were restored over the rows of gapless init; the table that lost rows in a restore.
select gapless.is_overlaid(), gapless.lost_rows()

-- name: dedupe
-- The disk space of dedupe keys, and the obstacles to turning slots: since when a slot is being left, and since when
-- all keys of a slot are too old.
-- returns: gapless.ops.doctor.log:Dedupe
select
  (
    select sum(pg_total_relation_size(i.inhrelid))::bigint from pg_inherits i
    where i.inhparent = 'gapless.dedupe'::regclass
  ) as bytes,
  (
    select extract(epoch from clock_timestamp() - s.since_ts)::float8
    from gapless.dedupe_state s where s.closing is not null
  ) as closing_s,
  (
    select max(
      extract(epoch from clock_timestamp() - d.closed_ts)
        - coalesce(gapless.dedupe_longest(d.slot), 0)
    )::float8
    from gapless.dedupe_slot d where d.closed_ts is not null
  ) as overdue_s

-- name: chunks
-- Ids for which the chunks still have room, by the newest visible event; the session that has had the default chunk for
-- longest, at least a second, so that no chunk can be created (held_s: null where its times are hidden).
-- returns: gapless.ops.doctor.log:Chunks
select
  c.chunk_events,
  c.chunks_ahead,
  (
    select coalesce(max(k.upto), 0) from gapless.chunk k
  ) - coalesce((select max(o.id) from gapless.outbox_message_t o), 0) - 1 as room,
  d.bytes as default_bytes, d.reason as default_reason, d.pid as default_pid, h.pid as held_by, h.held_s
from gapless.log_config c
left join lateral (
  select l.pid, extract(epoch from now() - a.xact_start)::float8 as held_s
  from pg_locks l
  left join pg_stat_activity a using (pid)
  where l.locktype = 'relation' and l.relation = 'gapless.outbox_message_default'::regclass and l.granted
    and l.database = (select d.oid from pg_database d where d.datname = current_database())
    and l.pid <> pg_backend_pid() and (now() - a.xact_start < interval '1 s') is not true
  order by a.xact_start limit 1
) h on true
left join gapless.default_chunk d on true

-- name: queues
-- Partitions of queue groups: offsets that they cannot pass, blocks in hand and their ages, waiting units.
-- returns: gapless.features.queue.checks:QueueFacts
-- Sessions and locks are listed once: a list costs as much as its rows, and a queue may have a thousand partitions.
with sessions as materialized (
  select a.application_name, count(*) as workers from pg_stat_activity a
  where a.datname = current_database()
  group by 1
),
working as materialized (
  select distinct on (k.objid) k.objid, k.pid, extract(epoch from clock_timestamp() - a.xact_start)::float8 as age_s
  from pg_locks k
  join pg_stat_activity a using (pid)
  where k.locktype = 'advisory' and k.classid = 7427003::oid and k.objsubid = 2 and k.granted and k.mode = 'ShareLock'
    and k.database = (select d.oid from pg_database d where d.datname = current_database())
  order by k.objid, a.xact_start
)
select
  s.group_id as "group", s.topic, s.partition_id as partition, s.next_offset, s.lease_no,
  s.open, s.in_work, s.in_hand, s.lapsed, s.finished_ahead, s.waiting, s.oldest_open_s, s.is_paused,
  not exists (
    select from gapless.queue_range r
    where r.lease_no = s.lease_no and r.first_offset = s.next_offset and r.deadline is null
  ) as is_swept,
  coalesce(n.workers, 0) as workers,
  m.outcome as missing, m.first_offset as missing_first, m.last_offset as missing_last,
  g.first_offset as gap_first, g.last_offset as gap_last,
  h.first_offset as held_first, h.last_offset as held_last, h.holder as held_by,
  extract(epoch from clock_timestamp() - h.since_ts)::float8 as held_s,
  w.pid as work_pid, w.age_s as work_s,
  (
    select extract(epoch from min(d.next_attempt_ts) - clock_timestamp())::float8 from gapless.dead_letter d
    where d.group_id = s.group_id and d.topic_id = s.topic_id and d.partition_id = s.partition_id
      and d.state = 'waiting'
  ) as waits_s
from (
  select g.group_id, q.*, l.topic_id, l.lease_no, count(*) over () as partitions
  from (select c.group_id from gapless.consumer_group c where c.mode = 'queue' and not c.is_scratch group by 1) g
  cross join lateral gapless.queue_state(g.group_id) q
  join gapless.topic t on t.name = q.topic
  join gapless.lease l
    on l.group_id = g.group_id and l.topic_id = t.topic_id and l.partition_id = q.partition_id
) s
-- MUST look for a bounded number of events in all, whatever the number of partitions.
left join lateral gapless.queue_missing(
  s.topic_id, s.partition_id, s.lease_no, (5000 / greatest(s.partitions, 1))::int
) m on true
left join lateral (
  select w.first_offset, w.last_offset
  from gapless.floor_of(s.lease_no) f
  cross join lateral (select (s.next_offset - 1) / f.block * f.block + 1 as first) b
  cross join lateral gapless.gap_in_block(s.lease_no, b.first, b.first + f.block - 1) w
) g on true
left join lateral (
  select r.first_offset, r.last_offset, r.holder, r.since_ts from gapless.queue_range r
  where r.lease_no = s.lease_no and r.first_offset >= s.next_offset and r.deadline > clock_timestamp()
  order by r.since_ts
  limit 1
) h on true
left join sessions n on n.application_name = left('gapless/queue worker ' || s.group_id, 63)
left join working w on w.objid = s.lease_no::oid
order by 1, 2, 3
