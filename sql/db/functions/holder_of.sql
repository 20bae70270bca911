-- Return the transaction that has a lock, by the columns of pg_locks: the session's pid, or null and the gid of a
-- prepared transaction; its role, and for how long it has been open (null: not shown to this role).
create or replace function gapless.holder_of(
  _pid int, _virtualtransaction text, out pid int, out gid text, out owner text, out open_s double precision
)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select _pid, p.gid::text, coalesce(p.owner, a.usename)::text,
    extract(epoch from clock_timestamp() - coalesce(p.prepared, a.xact_start))::double precision
  from (values (1)) one
  left join pg_stat_activity a on a.pid = _pid
  left join pg_prepared_xacts p on _pid is null and exists (
    select from pg_locks k
    where k.pid is null and k.virtualtransaction = _virtualtransaction and k.transactionid = p.transaction
  )
$$;
