-- Return the numbers of columns by their names, 0 for a missing one; null for null. As column_numbers(), without
-- errors.
create or replace function gapless.numbers_of(_table oid, _names text[]) returns smallint[]
language sql stable as $$
  select case
    when _names is not null then array(
      select coalesce(a.attnum, 0::smallint)
      from unnest(_names) with ordinality u (name, n)
      left join pg_attribute a on a.attrelid = _table and a.attname = u.name and a.attnum > 0 and not a.attisdropped
      order by u.n
    )
  end
$$;
