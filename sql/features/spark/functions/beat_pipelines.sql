-- Record that runs of pipelines live: the n-th of the arrays belong together.
create or replace function gapless.beat_pipelines(_names text[], _epochs bigint[]) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update gapless.pipeline p set beat_ts = clock_timestamp()
  from unnest(_names, _epochs) as u (name, epoch)
  where p.name = u.name and p.epoch = u.epoch
$$;
