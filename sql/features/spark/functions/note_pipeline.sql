-- Record for status why a pipeline stands still, or, by null, that it does not.
create or replace function gapless.note_pipeline(_name text, _error text) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update gapless.pipeline p
  set error = _error,
    failing_ts = case when _error is not null then coalesce(p.failing_ts, clock_timestamp()) end
  where p.name = _name
$$;
