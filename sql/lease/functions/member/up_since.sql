-- Since when the server is up: it is the WAL writer's start that counts, after a recovery, also one from the crash of a
-- single backend. -infinity: the clock was ahead when it started, so nobody knows.
create or replace function gapless.up_since()
returns timestamptz
language sql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
  select case when x.up_since > gapless.clock() then '-infinity' else x.up_since end
  from (
    select greatest(
      pg_postmaster_start_time(),
      (select min(a.backend_start) from pg_stat_activity a where a.backend_type = 'walwriter')
    ) as up_since
    offset 0
  ) x
$$;
