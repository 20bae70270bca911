-- Return the number of instances that stand by to run a pipeline, or wait to try it again: each shares a lock.
create or replace function gapless.pipeline_standbys(_name text) returns int
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select count(*)::int
  from pg_locks k
  where k.locktype = 'advisory' and k.classid = 7427007::oid and k.objsubid = 2 and k.granted
    and k.objid::bigint = hashtext(_name)::bigint & 4294967295
    and k.database = (select d.oid from pg_database d where d.datname = current_database())
$$;
