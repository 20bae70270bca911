-- Return the number of processes that deliver for a group of webhooks now, by the locks of their leases, as works().
create or replace function gapless.webhook_workers(_group_id text) returns int
language sql stable as $$
  select count(distinct k.pid)::int
  from gapless.lease l
  join pg_locks k on k.locktype = 'advisory' and k.classid = 7427003::oid
    and k.objid = l.lease_no::oid and k.objsubid = 2 and k.granted
    and k.database = (select d.oid from pg_database d where d.datname = current_database())
  where l.group_id = _group_id
$$;
