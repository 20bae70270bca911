-- Write down the files of a batch before they get their names: from here on the batch is finished by
-- moving them, however often that is interrupted, and never written again.
create or replace function gapless.plan_files(name text, batch bigint, planned jsonb, files jsonb)
returns boolean
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  update gapless.pipeline p set planned = plan_files.planned, files = plan_files.files
  where p.name = plan_files.name and p.batch = plan_files.batch and p.planned is null
  returning true
$$;
