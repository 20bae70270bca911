-- Return the select list of a payload: the requested columns that are there (row_columns.sql).
create or replace function gapless.captured_columns(_asked gapless.captured, _root oid) returns text
language sql stable as $$
  select gapless.row_columns(_root, case
    when (_asked).columns is not null then array(
      select gapless.captured_column(_asked, _root, u.name, u.number)
      from unnest((_asked).columns, (_asked).column_numbers) u (name, number)
    )
  end)
$$;
