-- Drop unused stages: the named ones, and those older than an interval.
create or replace function gapless.drop_stages(_tokens uuid[], _older_than interval default null) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  doomed uuid;
  dropped int := 0;
  sure_ts timestamptz := gapless.sure_clock();
begin
  for doomed in
    delete from gapless.stage s
    where s.token = any (_tokens)
      or s.created_ts < sure_ts - _older_than
    returning s.token
  loop
    execute format('drop table if exists gapless.%I', 'stage_' || replace(doomed::text, '-', ''));
    dropped := dropped + 1;
  end loop;
  return dropped;
end
$$;
