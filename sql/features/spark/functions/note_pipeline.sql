-- Record for status why a pipeline stopped, and when a run of it began.
create or replace function gapless.note_pipeline(_name text, _error text) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update gapless.pipeline p
  set error = _error,
    started_ts = case when _error is null then clock_timestamp() else p.started_ts end
  where p.name = _name
$$;
