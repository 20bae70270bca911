-- When it is this local time in a zone: of two the first; one that the clock leaves out is as much later as it
-- was put forward.
create or replace function gapless.first_instant(_local timestamp, _zone text)
returns timestamptz
language sql
stable
as $$
  -- PostgreSQL takes the second of two. Clocks are put back by two hours at most.
  select coalesce(
    (
      select min(at - g)
      from unnest('{2 hours,1 hour,30 minutes}'::interval[]) g
      where (at - g) at time zone _zone = _local
    ), at
  )
  from (select _local at time zone _zone) as x (at)
$$;
