-- Return the table column for each column of an event: the requested one, or without a request the column of the same
-- name, if there is one. null: none; a payload is then the whole row.
-- Raises GL400 for a column that neither has, or one of a type that does not fit.
create or replace function gapless.attached_map(_table oid, _asked jsonb) returns jsonb
language plpgsql stable as $$
declare
  known constant text[] := array[
    'key', 'host_id', 'user_id', 'transaction_id', 'event_type', 'payload', 'headers'
  ];
  made jsonb := '{}';
  each text;
  named text;
  type oid;
begin
  if coalesce(jsonb_typeof(_asked), 'object') <> 'object' then
    raise exception 'map is an object such as {"payload": "body"}, not %', _asked using errcode = 'GL400';
  end if;
  foreach each in array array(select jsonb_object_keys(_asked)) loop
    if each <> all (known) then
      raise exception 'an event has no column "%": map one of %', each, array_to_string(known, ', ')
        using errcode = 'GL400';
    end if;
  end loop;
  foreach each in array known loop
    if _asked ? each then
      named := _asked ->> each;
      perform gapless.column_numbers(_table, array[named]) where named is not null;
    else
      select a.attname into named from pg_attribute a
      where a.attrelid = _table and a.attname = each and a.attnum > 0 and not a.attisdropped
        and a.attgenerated <> 'v';
    end if;
    made := made || jsonb_build_object(each, named);
    select a.atttypid into type from pg_attribute a
    where a.attrelid = _table and a.attname = named and a.attnum > 0;
    if each = 'payload' and type not in (
        'json'::regtype, 'jsonb'::regtype, 'text'::regtype, 'varchar'::regtype
      ) or each = 'headers' and type not in ('json'::regtype, 'jsonb'::regtype)
    then
      raise exception 'column "%" is %, which is no %: map another, or none (--map %=)', named, type::regtype,
        case each when 'payload' then 'JSON and no text' else 'JSON' end, each
        using errcode = 'GL400';
    end if;
  end loop;
  return made;
end
$$;
