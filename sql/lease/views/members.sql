-- The present members: running supervisors, and clients (kind). beat_s: since the last heartbeat (evicted at ttl_s);
-- is_present: while its control session lives; until its deadline for a client, and on a standby, which sees no
-- sessions of its primary; owned and wanted count partitions; groups are group/topic; version (of gapless) and python
-- are a supervisor's; revoked_role: the role as which it joined, when that may no longer take leases.
create or replace view gapless.members as
select
  m.name, m.state, m.member_no,
  greatest(extract(epoch from now() - m.started_ts), 0)::double precision as up_s,
  greatest(extract(epoch from now() - (m.expires_at - m.ttl)), 0)::double precision as beat_s,
  extract(epoch from m.ttl)::double precision as ttl_s,
  k.objid is not null or (m.kind = 'client' or pg_is_in_recovery()) and m.expires_at >= now() as is_present,
  m.suspect_at is not null as is_suspected,
  m.capacity,
  (select count(*) from gapless.lease l where l.owner = m.member_id) as owned,
  (select count(*) from gapless.lease l where l.target = m.member_id) as wanted,
  array(
    select mg.group_id || '/' || t.name
    from gapless.member_group mg
    join gapless.topic t using (topic_id)
    where mg.member_id = m.member_id
    order by 1
  ) as groups,
  m.backend_pid, m.started_ts, m.member_id,
  case when m.role is not null and not coalesce(gapless.may_lease(r.oid), false) then m.role end as revoked_role,
  m.kind, m.version, m.python
from gapless.all_members m
left join pg_roles r on r.rolname = m.role
left join (
  select distinct p.objid from pg_locks p
  where p.locktype = 'advisory' and p.classid = 7427002::oid and p.objsubid = 2 and p.granted
    and p.mode = 'ExclusiveLock'
    and p.database = (select d.oid from pg_database d where d.datname = current_database())
) k on k.objid = m.member_no::oid;

comment on view gapless.members is
  'The supervisors that run and the clients that joined, with the age of their heartbeat.';
