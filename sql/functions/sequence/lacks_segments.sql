-- Is the log without its segments, though offsets were given? Then a restore has failed in part, as pg_restore
-- --data-only does without --disable-triggers: events would get other offsets, and be handled again.
create or replace function gapless.lacks_segments()
returns boolean
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select not exists (select from gapless.log_segment) and exists (select from gapless.sequencer s where s.events > 0)
$$;
