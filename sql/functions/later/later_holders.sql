-- Transactions that have events for later in hand which are due, and have not ended: with a cancel(), for 2 s, as in
-- left_prepared.sql. All of the transaction that published such an event waits (S3).
-- pid: of the session; null: it was prepared, as gid. events: of the first 1000 that are due. since_s: for so long.
-- A row tells in xmax who deletes it; each transaction, and each savepoint that wrote, has a lock on its number.
-- plan: the primary key of scheduled. Where somebody sequences nothing is overdue, and nothing else is asked
create or replace function gapless.later_holders()
returns table (pid int, gid text, owner text, events bigint, since_s double precision)
language sql
volatile
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
  select l.pid, p.gid::text, coalesce(p.owner, a.usename)::text, h.events, x.since_s
  from (select gapless.clock() as now_ts offset 0) t
  cross join lateral (
    select s.xmax as xid, count(*) as events, t.now_ts - min(s.deliver_at) as late
    from (
      select s.xmax, s.deliver_at from gapless.scheduled s
      where s.deliver_at <= t.now_ts - interval '2 s'
      order by s.deliver_at, s.scheduled_id
      limit 1000
    ) s
    where s.xmax <> '0'
    group by s.xmax
  ) h
  cross join lateral (
    select k.pid, k.virtualtransaction from pg_locks k
    where k.locktype = 'transactionid' and k.transactionid = h.xid and k.mode = 'ExclusiveLock' and k.granted
  ) l
  left join pg_stat_activity a on a.pid = l.pid
  left join pg_prepared_xacts p on l.pid is null and exists (
    select from pg_locks k
    where k.pid is null and k.virtualtransaction = l.virtualtransaction and k.transactionid = p.transaction
  )
  cross join lateral (
    select extract(
      epoch from least(h.late, clock_timestamp() - coalesce(p.prepared, a.xact_start))
    )::double precision as since_s
  ) x
  where x.since_s > 2    -- who promotes has them in hand for a moment
$$;
