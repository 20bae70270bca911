-- Return the present name of a column that was given by name: by its number, if the table is still the same (a restore
-- gives tables and columns other numbers), else by its name; null: it is gone.
create or replace function gapless.captured_column(_asked gapless.captured, _root oid, _name text, _number smallint)
returns name
language sql stable as $$
  select a.attname from pg_attribute a
  where a.attrelid = _root and a.attnum > 0 and not a.attisdropped
    and (a.attname = _name or a.attnum = _number and (_asked).table_id = _root)
  order by a.attnum = _number and (_asked).table_id = _root desc nulls last
  limit 1
$$;
