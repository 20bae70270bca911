-- What of a row changed, as it was before: both are of the same columns, in the same order.
create or replace function gapless.changed_columns(_old json, _new json)
returns json
language sql
immutable
as $$
  select coalesce(json_object_agg(o.key, o.value order by o.n), '{}')
  from json_each(_old) with ordinality o (key, value, n)
  join json_each(_new) with ordinality w (key, value, n) using (n)
  where o.value::text <> w.value::text
$$;
