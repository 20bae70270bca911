-- Sessions that hold, or wait for, an advisory lock of gapless without a right to it (I11): any role that may connect
-- may take advisory locks. Roles that may take leases (may_lease()) may have them.
-- The shared lock (7427001, 2) is no sign: publishers have it, whatever their roles.
-- A session whose role is not known yet (usesysid) began since the activity was read: the next look judges it.
create or replace view gapless.foreign_locks as
select
  k.pid,
  a.usename::text as role,
  case k.classid::bigint
    when 7427001 then case k.objid::bigint when 3 then 'the role of the sequencer' else 'the wake handshake' end
    when 7427002 then 'the presence of a supervisor'
    when 7427003 then coalesce(
      (
        select 'partition ' || concat_ws('/', l.group_id, t.name, l.partition_id)
        from gapless.lease l
        join gapless.topic t using (topic_id)
        where l.lease_no = k.objid::bigint
      ), 'a partition')
    when 7427006 then 'a block of a queue'
    else 'a pipeline'
  end as holds,
  k.granted
from pg_locks k
join pg_stat_activity a using (pid)
where k.locktype = 'advisory' and k.objsubid = 2
  and k.database = (select d.oid from pg_database d where d.datname = current_database())
  and (
    k.classid::bigint in (7427002, 7427003, 7427005, 7427006, 7427007)
    or k.classid::bigint = 7427001
      and (k.objid::bigint = 3 or k.objid::bigint = 2 and k.mode <> 'ShareLock')
  )
  and a.usesysid is not null
  -- Judged once for each role, not for each lock, and only for roles with sessions here: every supervisor looks at each
  -- heartbeat.
  and (a.usesysid = any (array(
    select r.role from (select distinct x.usesysid as role from pg_stat_activity x offset 0) r
    where gapless.may_lease(r.role)
  ))) is not true;

comment on view gapless.foreign_locks is 'Sessions that hold a lock of gapless without a right to it; they are ended.';
