-- Tell whether a worker of this member holds the lock of a partition that the member owns. Only the member's own worker
-- counts: a dead one's lock goes to the successor's worker that queued for it, which cannot take the lease yet.
create or replace function gapless.works(_member_id uuid) returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select exists (
    select from gapless.lease l
    join pg_locks k on k.locktype = 'advisory' and k.classid = 7427003::oid
      and k.objid = l.lease_no::oid and k.objsubid = 2 and k.granted
      and k.database = (select d.oid from pg_database d where d.datname = current_database())
    where l.owner = _member_id and l.worker_pid = k.pid
  )
$$;
