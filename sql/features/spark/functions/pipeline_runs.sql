-- Tell whether a run of the pipeline is under way, here or on another machine: it holds the lock of its name.
create or replace function gapless.pipeline_runs(_name text) returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select exists (
    select from pg_locks k
    where k.locktype = 'advisory' and k.classid = 7427005::oid and k.objsubid = 2 and k.granted
      and k.objid::bigint = hashtext(_name)::bigint & 4294967295
      and k.database = (select d.oid from pg_database d where d.datname = current_database())
  )
$$;
