-- Tell whether conditions are evaluated with the rights of a role that may read nothing (roles/condition.sql).
create or replace function gapless.conditions_are_safe() returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
  select coalesce(bool_and(r.rolname = 'gapless_condition' and not r.rolsuper and p.prosecdef), false)
  from pg_proc p
  join pg_roles r on r.oid = p.proowner
  where p.pronamespace = 'gapless'::regnamespace and p.proname = 'ask_condition'
$$;
