-- A time for people: UTC, to the millisecond.
create or replace function gapless.stamp(moment timestamptz)
returns text
language sql
stable
as $$
  select case
    when isfinite(moment) then to_char(moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
    else moment::text
  end
$$;
