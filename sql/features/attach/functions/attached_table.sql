-- Return the table of an attachment: the one with its trigger, else the original one, else that of its name; null:
-- gone.
create or replace function gapless.attached_table(_made gapless.attached) returns oid
language sql stable as $$
  select coalesce(
    (
      select t.tgrelid from gapless.attach_triggers() t
      where t.attachment_id = (_made).attachment_id order by t.tgrelid limit 1
    ),
    (select r.oid from pg_class r where r.oid = (_made).table_id and r.relkind = 'r'),
    -- Not to_regclass(): it refuses roles that may not use the schema.
    (
      select r.oid from pg_class r join pg_namespace n on n.oid = r.relnamespace
      where format('%I.%I', n.nspname, r.relname) = (_made).table_name and r.relkind = 'r'
    )
  )
$$;
