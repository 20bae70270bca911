-- name: next_member_no
select gapless.next_member_no()

-- name: try_presence
select pg_try_advisory_lock(7427002, %(member_no)s)

-- name: presence
select pg_advisory_lock(7427002, %(member_no)s)

-- name: end_foreign_locks
-- returns: gapless.lease.foreign_locks:ForeignLock
select e.pid, e.role, e.holds, e.is_ended from gapless.end_foreign_locks() e

-- name: left_prepared
-- At each heartbeat: the places, and clients that only send heartbeats, are left to status and doctor
-- (lease/views/obstacles.sql).
select p.gid, format(
  'prepared transaction %L of role %s has held rows that groups need to continue for %s s, '
  'and nothing ends it but a person: rollback prepared %L, or commit prepared', p.gid, p.owner, floor(p.since_s), p.gid
)
from gapless.left_prepared() p
order by p.since_s desc

-- name: later_holders
-- As in status and doctor.
select o.name, o.problem || ': ' || o.remedy from gapless.obstacles o where o.kind = 'transaction'

-- name: end_former_session
-- Only if that backend still holds this member's lock: its pid may belong to another session by now.
select pg_terminate_backend(k.pid)
from gapless.member m
join pg_locks k on k.locktype = 'advisory' and k.classid = 7427002::oid
  and k.objid = m.member_no::oid and k.objsubid = 2 and k.granted and k.pid = m.backend_pid
where m.member_id = %(member_id)s and k.pid <> pg_backend_pid()
union all
select true
limit 1

-- name: create_group
select gapless.create_group(
  %(group_id)s, %(topic)s, %(start)s, %(mode)s, %(block)s, %(max_crashes)s
)

-- name: join
select gapless.join_groups(
  %(member_id)s, %(member_no)s, %(name)s, %(capacity)s, %(partitions_per_worker)s, %(ttl)s,
  %(groups)s, %(topics)s, %(sessions)s, %(version)s, %(python)s
)

-- name: sessions_needed
-- returns: gapless.lease.room:Demand
select supervisors, partitions, workers, max_connections, reserved, own
from gapless.sessions_needed(
  %(capacity)s, %(partitions_per_worker)s, %(groups)s, %(topics)s, %(total_partitions)s,
  %(sessions)s
)

-- name: beat
select gapless.beat(%(member_id)s)

-- name: watch
select gapless.watch(%(member_id)s)

-- name: evict
select gapless.evict(%(member_id)s, %(suspect_grace)s, %(reconnect_grace)s)

-- name: sync
select gapless.sync(%(group_id)s, %(topic_id)s)

-- name: drain
select gapless.drain_member(%(member_id)s)

-- name: leave
select gapless.leave_group(%(member_id)s)

-- name: enter_group
select gapless.enter_group(%(member_id)s, %(group_id)s, %(topic_id)s)

-- name: quit_group
select gapless.quit_group(%(member_id)s, %(group_id)s, %(topic_id)s)

-- name: group_no
select g.group_no from gapless.consumer_group g where g.group_id = %(group_id)s and g.topic_id = %(topic_id)s

-- name: disown
select gapless.disown(%(member_id)s, %(group_id)s, %(topic_id)s, %(partition_id)s)

-- name: leases
-- Every partition of this member's groups that it has, or is to have.
-- returns: gapless.lease.member:Lease
select group_id, topic, topic_id, partition_id, lease_no, group_no, target, owner, is_paused
from gapless.leases_of(%(member_id)s)

-- name: due_leases
select gapless.due_leases(%(member_id)s)

-- name: others
select exists (
  select from gapless.member_group mine
  join gapless.member_group other using (group_id, topic_id)
  join gapless.all_members m on m.member_id = other.member_id
  where mine.member_id = %(member_id)s and m.member_id <> mine.member_id and m.state = 'active'
)

-- name: ready
-- Tell the present owner that its successor is forked, connected and waiting.
select pg_notify('gapless_g_' || g.group_no, 'ready ' || l.lease_no)
from gapless.lease l
join gapless.consumer_group g using (group_id, topic_id)
where l.group_id = %(group_id)s and l.topic_id = %(topic_id)s
  and l.partition_id = %(partition_id)s

-- name: lock_partition
select pg_advisory_lock(7427003, %(lease_no)s)

-- name: try_lock_partition
select pg_try_advisory_lock(7427003, %(lease_no)s)

-- name: unlock_partition
select pg_advisory_unlock(7427003, %(lease_no)s)

-- name: acquire
select gapless.acquire(%(group_id)s, %(topic_id)s, %(partition_id)s, %(member_id)s, %(token)s)

-- name: install_fence
select gapless.install_fence(%(group_id)s, %(topic_id)s, %(partition_id)s, %(epoch)s, %(token)s)

-- name: release
-- One statement: a session that is notified of it finds the lock free. The partition's channel wakes the one worker
-- that waits; the group's channel, which release() notifies, the supervisors.
select
  gapless.release(%(group_id)s, %(topic_id)s::int, %(partition_id)s::int, %(token)s::uuid),
  pg_advisory_unlock(7427003, %(lease_no)s),
  pg_notify(format('gapless_p_%%s_%%s', %(topic_id)s::int, %(partition_id)s::int), 'free')

-- name: break_zombie
select gapless.break_zombie(%(group_id)s, %(topic_id)s, %(partition_id)s)

-- name: restarted
-- Whether the server started less than so many seconds ago. A crash of one backend does not count.
select pg_postmaster_start_time() between clock_timestamp() - make_interval(secs => %(age_s)s) and clock_timestamp()

-- name: report_error
select gapless.report_error(
  %(group_id)s, %(topic_id)s, %(partition_id)s, %(token)s, %(error)s
)

-- name: missing_grant
-- Functions that end the session of an evicted owner run as the schema's owner, which needs the right to end sessions
-- of this role. The owner and this role if it has none; no row when it has.
select
  o.rolname::text as owner, me.rolname::text as role
from pg_proc p
join pg_roles o on o.oid = p.proowner
join pg_roles me on me.rolname = current_user
where p.pronamespace = 'gapless'::regnamespace and p.proname = 'break_zombie'
  and not o.rolsuper
  and (
    me.rolsuper
    or not (pg_has_role(o.oid, me.oid, 'usage') or pg_has_role(o.oid, 'pg_signal_backend', 'usage'))
  )
