-- Record the files of a batch before they get their names: from here on the batch is finished by moving them, however
-- often that is interrupted, and never written again.
create or replace function gapless.plan_files(_name text, _batch bigint, _planned jsonb, _files jsonb, _epoch bigint)
returns boolean
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update gapless.pipeline p set planned = _planned, files = _files
  where p.name = _name and p.batch = _batch and p.planned is null and p.epoch = _epoch
  returning true
$$;
