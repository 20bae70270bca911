-- Return the rows of a packed hour of a series, as they were in history_minute.
create or replace function gapless.unpack_hour(_hour gapless.history_hour)
returns table (
  minute int, lag bigint, oldest bigint, handled bigint, published bigint, dead_letters bigint, members bigint
)
language sql immutable parallel safe set search_path = pg_catalog, pg_temp as $$
  select n.*
  from (select gapless.minutes_of(_hour.hour, _hour.minutes) as minutes offset 0) i
  cross join lateral (select cardinality(i.minutes) as size offset 0) z
  cross join lateral unnest(
    i.minutes, gapless.unpack_numbers(_hour.lag, z.size), gapless.unpack_numbers(_hour.oldest, z.size),
    gapless.unpack_numbers(_hour.handled, z.size), gapless.unpack_numbers(_hour.published, z.size),
    gapless.unpack_numbers(_hour.dead_letters, z.size), gapless.unpack_numbers(_hour.members, z.size)
  ) n (minute, lag, oldest, handled, published, dead_letters, members)
$$;
