-- What a column that was asked for by name is called now: by its number, if the table is still the one that it was
-- asked of (a restore gives tables and columns other numbers), else by its name; null: it is gone.
create or replace function gapless.captured_column(
  _asked gapless.captured, _root oid, _name text, _number smallint
)
returns name
language sql
stable
as $$
  select a.attname from pg_attribute a
  where a.attrelid = _root and a.attnum > 0 and not a.attisdropped
    and (a.attname = _name or a.attnum = _number and (_asked).table_id = _root)
  order by a.attnum = _number and (_asked).table_id = _root desc nulls last
  limit 1
$$;
