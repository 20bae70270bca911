-- Return the changed columns of a row with their old values: both rows have the same columns, in the same order. With
-- an escape in either that no text can have (\u0000, half a surrogate pair: a column of type json may) json_each()
-- would fail, and the writer with it; then the whole row is returned.
create or replace function gapless.changed_columns(_old json, _new json) returns json
language sql immutable as $$
  select case
    when _old::text ~* E'\\\\u(0000|d[89a-f])' or _new::text ~* E'\\\\u(0000|d[89a-f])' then _old
    else (
      select coalesce(json_object_agg(o.key, o.value order by o.n), '{}')
      from json_each(_old) with ordinality o (key, value, n)
      join json_each(_new) with ordinality w (key, value, n) using (n)
      where o.value::text <> w.value::text
    )
  end
$$;
