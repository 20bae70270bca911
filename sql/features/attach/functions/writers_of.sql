-- Return the transactions that hold a lock for writing to a table, except the caller's, as pg_locks names them.
create or replace function gapless.writers_of(_table oid) returns text[]
language sql volatile as $$
  select coalesce(array_agg(distinct l.virtualtransaction), '{}')
  from pg_locks l
  where l.locktype = 'relation' and l.relation = _table and l.granted
    and l.database = (select d.oid from pg_database d where d.datname = current_database())
    and l.mode in ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
    and l.pid is distinct from pg_backend_pid()
$$;
