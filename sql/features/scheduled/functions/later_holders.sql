-- Return transactions that keep due events out of the log, and have not ended for 2 s, as in left_prepared.sql: by a
-- cancel(), or by another lock on the rows. All events of a transaction wait for such an event (S3). A transaction may
-- also have locked the table, or the guard: then nothing is promoted (events: null).
-- pid: of the session; null: the transaction was prepared, as gid. events: among the first 1000 due ones. since_s: for
-- so long. The xmax of a row is the deleting transaction: a transaction that has a lock on it, or a released savepoint,
-- or several transactions that share the row: then it may be each transaction that has locked rows of the table. MUST
-- NOT look at the table while it is locked: it would wait.
-- plan: the primary key of scheduled. Where a sequencer runs no event is overdue, and nothing else is asked
create or replace function gapless.later_holders()
returns table (pid int, gid text, owner text, events bigint, since_s double precision)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  now_ts timestamptz := gapless.clock();
  ours oid := (select d.oid from pg_database d where d.datname = current_database());
begin
  for pid, gid, owner, since_s in
    select h.pid, h.gid, h.owner, h.open_s
    from pg_locks l
    cross join lateral gapless.holder_of(l.pid, l.virtualtransaction) h
    where l.database = ours and l.granted
      and l.relation in ('gapless.scheduled'::regclass, 'gapless.guard_promoting'::regclass)
      and l.mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
  loop
    if since_s > 2 then    -- a promoting session has the guard for a moment
      return next;
    end if;
  end loop;
  if found then
    return;
  end if;
  return query
  select h.pid, h.gid, h.owner, x.events, least(h.open_s, x.late_s)
  from (
    select l.pid, l.virtualtransaction, count(*) as events,
      extract(epoch from now_ts - min(s.deliver_at))::double precision as late_s
    from (
      select o.xmax, o.deliver_at from gapless.scheduled o
      where o.deliver_at <= now_ts - interval '2 s'
      order by o.deliver_at, o.scheduled_id
      limit 1000
    ) s
    left join pg_locks k
      on k.locktype = 'transactionid' and k.transactionid = s.xmax and k.mode = 'ExclusiveLock' and k.granted
    join (
      select distinct r.pid, r.virtualtransaction from pg_locks r
      where r.database = ours and r.relation = 'gapless.scheduled'::regclass
        and r.mode in ('RowShareLock', 'RowExclusiveLock')
    ) l on k.virtualtransaction is null or l.virtualtransaction = k.virtualtransaction
    where s.xmax <> '0'
    group by 1, 2
  ) x
  cross join lateral gapless.holder_of(x.pid, x.virtualtransaction) h
  where h.open_s > 2;
end
$$;
