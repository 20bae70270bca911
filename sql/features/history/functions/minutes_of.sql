-- Return the minutes of an hour whose bit is set, in their order.
create or replace function gapless.minutes_of(_hour int, _bits bigint) returns int[]
language sql immutable parallel safe set search_path = pg_catalog, pg_temp as $$
  select array(select _hour * 60 + n from generate_series(0, 59) n where _bits >> n & 1 = 1)
$$;
