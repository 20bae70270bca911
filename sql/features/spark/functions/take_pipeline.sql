-- Begin a run of a pipeline, whose run lock the caller's session holds: returns the new epoch, with which alone a batch
-- can end from here on (end_batch.sql, plan_files.sql).
create or replace function gapless.take_pipeline(_name text, _runner text) returns bigint
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update gapless.pipeline p
  set epoch = p.epoch + 1, runner = _runner, beat_ts = clock_timestamp(), started_ts = clock_timestamp()
  where p.name = _name
  returning p.epoch
$$;
