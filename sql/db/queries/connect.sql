-- name: guard_session
-- A lock or an open transaction must not outlive its client (docs/why/leases.md): keepalives find a dead host,
-- user_timeout a cut with data in flight, the check interval a client that is gone during a query.
-- The styles: psycopg reads times and intervals in these only; the order of day and month stays.
-- No JIT compilation: gapless's queries are look-ups, whose cost the planner may overestimate; compiling takes seconds.
do $$
begin
  perform set_config('tcp_keepalives_idle', '5', false);
  perform set_config('tcp_keepalives_interval', '2', false);
  perform set_config('tcp_keepalives_count', '3', false);
  perform set_config('tcp_user_timeout', '10000', false);
  perform set_config('default_transaction_isolation', 'read committed', false);
  perform set_config('default_transaction_read_only', 'off', false);
  perform set_config('datestyle', 'ISO', false);
  perform set_config('intervalstyle', 'postgres', false);
  perform set_config('jit', 'off', false);
  begin
    perform set_config('client_connection_check_interval', '500', false);
  exception when others then
    null;    -- not on every operating system
  end;
end
$$

-- name: begin_anew
-- A pooler in session mode may reset nothing (server_reset_query): statements, locks and channels of the previous
-- client are not gapless's, though their names may be.
do $$
begin
  deallocate all;
  unlisten *;
  perform pg_advisory_unlock_all();
end
$$

-- name: unfit
-- Defaults that guard_session overrides, where sessions are shared and nothing may be set.
select w.name, s.setting, w.wanted
from (values
  ('default_transaction_isolation', 'read committed'), ('default_transaction_read_only', 'off'),
  ('DateStyle', 'ISO'), ('IntervalStyle', 'postgres')
) w (name, wanted)
join pg_settings s using (name)
where not starts_with(s.setting, w.wanted)

-- name: guard_worker
-- The last back-stop against a paused worker: its open transaction ends, and its locks with it. Statements of handlers
-- are compiled as the server is configured.
select set_config('idle_in_transaction_session_timeout', %(max_processing_ms)s::text, false),
  set_config('jit', (select s.reset_val from pg_settings s where s.name = 'jit'), false)

-- name: backend_pid
select pg_backend_pid()

-- name: who
select pg_is_in_recovery(), current_setting('server_version_num')::int, pg_backend_pid()

-- name: lock_timeout
select set_config('lock_timeout', %(timeout)s::text, false)

-- name: local_lock_timeout
select set_config('lock_timeout', %(timeout)s::text, true)

-- name: statement_timeout
select set_config('statement_timeout', %(timeout_ms)s::text, false)

-- name: lock_holders
-- The transactions that have locked a table of gapless for longer than open_s, so that reads or writes wait; with the
-- remedy for each. Reads no table of gapless.
select
  coalesce('prepared transaction ' || quote_literal(h.gid), 'pid ' || h.pid) || coalesce(' of role ' || h.owner, '')
    || format(' has locked %%s (%%s) in a transaction that has been open for %%s s: each session that needs it waits',
      c.relname, l.mode, floor(h.open_s)),
  coalesce(
    'rollback prepared ' || quote_literal(h.gid) || ', or commit prepared',
    'have it commit, or select pg_terminate_backend(' || h.pid || ')'
  )
from pg_locks l
join pg_class c on c.oid = l.relation and c.relnamespace = 'gapless'::regnamespace and c.relkind in ('r', 'p')
cross join lateral gapless.holder_of(l.pid, l.virtualtransaction) h
where l.granted and l.database = (select d.oid from pg_database d where d.datname = current_database())
  and l.mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
  and h.open_s > %(open_s)s
order by floor(h.open_s) desc, c.relispartition, 1
