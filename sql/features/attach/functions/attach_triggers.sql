-- Return all triggers of attachments, with the number that they carry: those that run attach_rows().
-- plan: by the dependencies of that function; pg_trigger has no index for it.
create or replace function gapless.attach_triggers()
returns table (attachment_id int, tgrelid oid, tgname name, tgenabled "char")
language sql stable as $$
  select case when w.word ~ '^[0-9]{1,9}$' then w.word::int end, t.tgrelid, t.tgname, t.tgenabled
  from pg_depend d
  join pg_trigger t on t.oid = d.objid
  cross join lateral (select split_part(encode(t.tgargs, 'escape'), E'\\000', 1) as word) w
  where d.refclassid = 'pg_proc'::regclass and d.refobjid = 'gapless.attach_rows()'::regprocedure
    and d.classid = 'pg_trigger'::regclass and t.tgfoid = d.refobjid
$$;
