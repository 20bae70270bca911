-- Return the expression that identifies a row of a table, over a row r: its primary key as text, or for several columns
-- a JSON array of texts; null when it has none.
create or replace function gapless.identity_of(_table oid) returns text
language sql stable as $$
  select case
    when count(*) = 1 then min(format('concat(r.%I)', a.attname))
    when count(*) > 1
      then 'json_build_array(' || string_agg(format('concat(r.%I)', a.attname), ', ' order by k.n) || ')::text'
  end
  from pg_index i
  cross join lateral unnest(i.indkey::smallint[]) with ordinality k (number, n)
  join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number
  where i.indrelid = _table and i.indisprimary and k.n <= i.indnkeyatts
$$;
