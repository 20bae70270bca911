-- Return the part of the time since a look at looked_ts that counts as idle: at most gap_s seconds, and an hour. Time
-- without a look, because no supervisor ran, counts for next to nothing, and so does a change of the clock. Used for
-- groups that expire (expire_groups.sql) and for subscriptions (expire_subscriptions.sql).
create or replace function gapless.counted_time(_looked_ts timestamptz, _now_ts timestamptz, _gap_s double precision)
returns interval
language sql immutable set search_path = pg_catalog, pg_temp as $$
  select make_interval(secs => least(
    greatest(extract(epoch from _now_ts - _looked_ts)::double precision, 0), greatest(_gap_s, 0), 3600
  ))
$$;
