-- Return the instant of a local time in a zone: of two instants the first; a local time that the clock leaves out is as
-- much later as the clock was put forward.
create or replace function gapless.first_instant(_local timestamp, _zone text) returns timestamptz
language sql stable as $$
  -- PostgreSQL takes the second of two instants. Clocks are put back by at most two hours.
  select coalesce(
    (
      select min(at - g)
      from unnest('{2 hours,1 hour,30 minutes}'::interval[]) g
      where (at - g) at time zone _zone = _local
    ), at
  )
  from (select _local at time zone _zone) as x (at)
$$;
