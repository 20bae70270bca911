-- Tell whether a sequencer lives, at work or not: a session has its role's lock.
create or replace function gapless.is_role_held() returns boolean
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
  select exists (
    select from pg_locks k
    where k.locktype = 'advisory' and k.classid = 7427001::oid and k.objid = 3::oid and k.objsubid = 2 and k.granted
      and k.database = (select d.oid from pg_database d where d.datname = current_database())
  )
$$;
