-- Format a time for people: UTC, to the millisecond.
create or replace function gapless.stamp(_moment timestamptz) returns text
language sql stable as $$
  select case
    when isfinite(_moment) then to_char(_moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
    else _moment::text
  end
$$;
