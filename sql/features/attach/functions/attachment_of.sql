-- Return the number of the attachment of a table: by its trigger, else by its note; null: it is not attached.
create or replace function gapless.attachment_of(_table oid) returns int
language sql stable as $$
  select coalesce(
    (
      select t.attachment_id from gapless.attach_triggers() t join gapless.attached a using (attachment_id)
      where t.tgrelid = _table order by t.attachment_id limit 1
    ),
    (
      select a.attachment_id
      from gapless.attached a
      join pg_class r on r.oid = _table
      join pg_namespace n on n.oid = r.relnamespace
      where (a.table_id = _table or a.table_name = format('%I.%I', n.nspname, r.relname))
        and not exists (select from gapless.attach_triggers() t where t.attachment_id = a.attachment_id)
      order by a.table_id = _table desc, a.attachment_id desc limit 1
    )
  )
$$;
