-- Return the stored time that is furthest ahead of the database's clock, by at least a second: the clock was ahead when
-- it was stored. No row: no stored time is ahead.
create or replace function gapless.ahead_times() returns table (what text, ahead_s double precision)
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
  select x.what, extract(epoch from x.ts - x.now_ts)::double precision
  from (
    select 'schedule ' || s.name || ' has had events for due times that are to come' as what,
      greatest(s.last_due, upper(s.ahead)) as ts, gapless.clock() as now_ts
    from gapless.schedule s
    union all
    select 'events got their offsets then', max(s.ran_ts), clock_timestamp()
    from gapless.sequencer s    -- about a thousand runs
    union all
    select 'member ' || m.name || ' joined, or sent a heartbeat, then', greatest(m.started_ts, m.expires_at - m.ttl),
      clock_timestamp()
    from gapless.all_members m
    union all
    select 'a person did something then (gapless.audit)', a.at_ts, clock_timestamp()
    from (select u.at_ts from gapless.audit u order by u.audit_id desc limit 100) a
  ) x
  where x.ts > x.now_ts + interval '1 s'
  order by x.ts - x.now_ts desc
  limit 1
$$;
