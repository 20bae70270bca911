-- Return the columns of an attachment, the id's too: the event's column, the noted column, and its present name: by its
-- number, if the table is still the attached one (a restore gives tables and columns other numbers), else by its name.
-- By its name, no column that was noted for another: two may have changed their names before one of them was dropped.
-- name null: none is mapped. now null: it is gone.
create or replace function gapless.attached_columns(_made gapless.attached, _root oid)
returns table (what text, name text, now text)
language sql stable as $$
  select m.key, m.value, (
    select a.attname::text from pg_attribute a
    cross join lateral (
      select a.attnum = ((_made).column_numbers ->> m.key)::int and (_made).table_id = _root as is_it
    ) n
    where a.attrelid = _root and a.attnum > 0 and not a.attisdropped and (
      n.is_it or a.attname = m.value and not exists (
        select from jsonb_each_text((_made).column_numbers) o
        where (_made).table_id = _root and o.value::int = a.attnum
      )
    )
    order by n.is_it desc nulls last
    limit 1
  )
  from jsonb_each_text((_made).map || jsonb_build_object('id', (_made).id_column)) m
$$;
