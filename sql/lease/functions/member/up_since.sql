-- Return the time since when the server is up: the start of the WAL writer counts, after a recovery, also after the
-- crash of a single backend. -infinity: the clock was ahead at the start, so the time is unknown.
create or replace function gapless.up_since() returns timestamptz
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
  select case when x.up_since > gapless.clock() then '-infinity' else x.up_since end
  from (
    select greatest(
      pg_postmaster_start_time(),
      (select min(a.backend_start) from pg_stat_activity a where a.backend_type = 'walwriter')
    ) as up_since
    offset 0
  ) x
$$;
