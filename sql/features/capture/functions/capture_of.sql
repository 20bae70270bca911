-- Return the number of the capture of a table: by its triggers, else by its note; null: it is not captured. A capture
-- whose triggers are on an existing table has no other.
create or replace function gapless.capture_of(_table oid) returns int
language sql stable as $$
  select coalesce(
    (
      select t.capture_id
      from gapless.capture_triggers() t
      join gapless.captured c using (capture_id)
      where t.tgrelid = _table and not t.on_partition
      order by t.capture_id limit 1
    ),
    (
      select c.capture_id
      from gapless.captured c
      join pg_class r on r.oid = _table
      join pg_namespace n on n.oid = r.relnamespace
      where (c.table_id = _table or c.table_name = format('%I.%I', n.nspname, r.relname))
        and not exists (
          select from gapless.capture_triggers() t where t.capture_id = c.capture_id and not t.on_partition
        )
      order by c.table_id = _table desc, c.capture_id desc limit 1
    )
  )
$$;
