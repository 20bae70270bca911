-- Return transactions that were prepared and left, and hold offsets, members, leases, or a guard of gapless: only a
-- person can end them. From 2 s on: that is less than any ttl, and normal use of two-phase commit needs no such time.
-- since_s: the time since then; 0: a clock that was ahead set it.
-- It asks catalogs only: supervisors call it at each heartbeat, which must not wait for a lock on a table.
create or replace function gapless.left_prepared()
returns table (gid text, owner text, xid xid, since_s double precision)
language sql stable set search_path = pg_catalog, pg_temp as $$
  select p.gid, p.owner::text, p.transaction,
    greatest(extract(epoch from clock_timestamp() - p.prepared), 0)::double precision
  from pg_prepared_xacts p
  where p.database = current_database()
    and p.prepared not between clock_timestamp() - interval '2 s' and clock_timestamp()
    and exists (
      select from pg_locks own
      join pg_locks k using (virtualtransaction)
      join pg_class r on r.oid = k.relation
      where own.locktype = 'transactionid' and own.transactionid = p.transaction and own.pid is null
        and k.locktype = 'relation' and k.pid is null and r.relnamespace = 'gapless'::regnamespace
        and k.database = (select d.oid from pg_database d where d.datname = current_database())
        and k.mode <> 'AccessShareLock'
        and (r.relname in ('consumer_offsets', 'member', 'lease') or starts_with(r.relname, 'guard_'))
    )
$$;
