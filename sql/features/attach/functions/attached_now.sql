-- Return an attachment with the present names of its columns; a missing column has its old name, or '', which is no
-- column's name, where another column has that name.
-- Most names are unchanged: to look up the name of each costs half as much as the rest of a row's trigger.
create or replace function gapless.attached_now(_made gapless.attached, _root oid) returns gapless.attached
language plpgsql stable as $$
declare
  names jsonb;
begin
  if _made.table_id = _root and exists (
    select from jsonb_each_text(_made.column_numbers) n
    left join pg_attribute a on a.attrelid = _root and a.attnum = n.value::int
    where a.attname is distinct from case n.key when 'id' then _made.id_column else _made.map ->> n.key end
  ) then
    select jsonb_object_agg(c.what, case
      when c.now is null and exists (select from pg_attribute a where a.attrelid = _root and a.attname = c.name) then ''
      else coalesce(c.now, c.name)
    end) into names
    from gapless.attached_columns(_made, _root) c;
    _made.id_column := names ->> 'id';
    _made.map := names - 'id';
  end if;
  return _made;
end
$$;
