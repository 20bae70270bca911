-- What the clock of subscriptions that expire says now: how long somebody has looked after them, and what of the
-- time since the last look counts, an hour at most (counted_time.sql).
create or replace function gapless.expiry_reading()
returns interval
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select k.watched + gapless.counted_time(k.looked_ts, clock_timestamp(), 3600) from gapless.expiry_clock k
$$;
