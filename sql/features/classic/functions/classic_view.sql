-- Return the view of that name that reads gapless.classic_offsets; null: there is none, or another object has that
-- name. Not to_regclass(): it refuses roles that may not use the schema.
create or replace function gapless.classic_view(_name text) returns oid
language sql stable as $$
  select r.oid
  from pg_class r join pg_namespace n on n.oid = r.relnamespace
  where r.relkind = 'v' and format('%I.%I', n.nspname, r.relname) = _name
    and exists (
      select from pg_rewrite w
      join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = w.oid
      where w.ev_class = r.oid and d.refclassid = 'pg_class'::regclass
        and d.refobjid = 'gapless.classic_offsets'::regclass
    )
$$;
