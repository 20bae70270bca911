-- Record that runs of pipelines live: the n-th of the arrays belong together. It waits for none that is ending a batch,
-- which may take long: the others would seem silent.
create or replace function gapless.beat_pipelines(_names text[], _epochs bigint[]) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  with free as (
    select p.name
    from gapless.pipeline p
    join unnest(_names, _epochs) as u (name, epoch) using (name, epoch)
    for no key update of p skip locked
  )
  update gapless.pipeline p set beat_ts = clock_timestamp()
  from free f
  where p.name = f.name
$$;
