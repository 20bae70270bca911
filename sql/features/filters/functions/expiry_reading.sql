-- Return the present reading of the clock of subscriptions that expire: the time in which a supervisor ran, and the
-- part of the time since the last look that counts, at most an hour (counted_time.sql).
create or replace function gapless.expiry_reading() returns interval
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select k.watched + gapless.counted_time(k.looked_ts, clock_timestamp(), 3600) from gapless.expiry_clock k
$$;
