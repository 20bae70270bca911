-- Return all triggers of captures, with the number that they carry: those that run capture_rows().
-- plan: by the dependencies of that function; pg_trigger has no index for it.
create or replace function gapless.capture_triggers() returns table (
  capture_id int, on_partition boolean, tgrelid oid, tgname name, tgenabled "char"
)
language sql stable as $$
  select
    case when w.words[1] ~ '^[0-9]{1,9}$' then w.words[1]::int end,
    coalesce(w.words[2] = 'partition', false),
    t.tgrelid, t.tgname, t.tgenabled
  from pg_depend d
  join pg_trigger t on t.oid = d.objid
  cross join lateral (select string_to_array(encode(t.tgargs, 'escape'), E'\\000') as words) w
  where d.refclassid = 'pg_proc'::regclass and d.refobjid = 'gapless.capture_rows()'::regprocedure
    and d.classid = 'pg_trigger'::regclass and t.tgfoid = d.refobjid
$$;
