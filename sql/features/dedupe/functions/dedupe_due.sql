-- Return the steps that are due, the most urgent one first.
create or replace function gapless.dedupe_due() returns table (step text, slot int)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select x.step, x.slot
  from (
    select 1 as rank, 'watch' as step, s.closing as slot
    from gapless.dedupe_state s
    where s.closing is not null and s.closes_at is null
    union all
    -- An xid of the future is one of the cluster from which this was dumped: there, every transaction is gone.
    select 2, 'close', s.closing
    from gapless.dedupe_state s
    where s.closing is not null
      and (
        s.closes_at <= pg_snapshot_xmin(pg_current_snapshot())
        or s.closes_at > pg_snapshot_xmax(pg_current_snapshot())
      )
    union all
    select 3, 'leave', d.slot
    from gapless.dedupe_state s
    join gapless.dedupe_slot d on d.slot = any (s.closed)
    where extract(epoch from gapless.sure_clock() - d.closed_ts)
      > coalesce(gapless.dedupe_longest(d.slot), 0)
    union all
    select 4, 'turn', (
      select min(d.slot) from gapless.dedupe_slot d
      where d.closed_ts is null and d.slot <> s.slot
    )
    from gapless.dedupe_state s
    where s.closing is null
      and exists (
        select from gapless.dedupe_slot d where d.closed_ts is null and d.slot <> s.slot
      )
      and extract(epoch from clock_timestamp() - s.since_ts) > gapless.dedupe_longest(s.slot) / 2
    union all
    select 5, 'empty', d.slot
    from gapless.dedupe_state s
    join gapless.dedupe_slot d on d.slot <> all (s.closed)
    where d.closed_ts is not null
  ) x
  order by x.rank, x.slot
$$;
