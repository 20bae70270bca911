-- Check where old consumers keep their positions, and return it in the form of the table: {"table", "group", "next" or
-- "last", "partition"}. Defaults: group is group_id, next is next_offset, partition is partition_id where there is one.
-- Raises GL400, GL404.
create or replace function gapless.checked_places(_asked jsonb) returns jsonb
language plpgsql stable as $$
declare
  made jsonb;
  here oid;
  each text;
begin
  if _asked is null then
    return null;
  end if;
  here := gapless.table_of(_asked ->> 'table');
  if here is null or not exists (select from pg_class r where r.oid = here and r.relkind in ('r', 'p')) then
    raise exception 'there is no table "%" with places of consumers', _asked ->> 'table' using errcode = 'GL404';
  end if;
  foreach each in array array(select jsonb_object_keys(_asked)) loop
    if each not in ('table', 'group', 'next', 'last', 'partition') then
      raise exception 'a place has no "%": say group, next (or last) and partition', each using errcode = 'GL400';
    end if;
  end loop;
  if _asked ? 'next' and _asked ? 'last' then
    raise exception 'a place is the id that is next, or the last one that was handled: say one of them'
      using errcode = 'GL400';
  end if;
  made := jsonb_build_object(
    'table', (
      select format('%I.%I', n.nspname, r.relname)
      from pg_class r join pg_namespace n on n.oid = r.relnamespace where r.oid = here
    ),
    'group', coalesce(_asked ->> 'group', 'group_id'),
    'partition', case
      when _asked ? 'partition' then nullif(_asked ->> 'partition', '')
      when exists (
        select from pg_attribute a where a.attrelid = here and a.attname = 'partition_id' and not a.attisdropped
      ) then 'partition_id'
    end
  ) || case
    when _asked ? 'last' then jsonb_build_object('last', _asked ->> 'last')
    else jsonb_build_object('next', coalesce(_asked ->> 'next', 'next_offset'))
  end;
  perform gapless.column_numbers(here, array_remove(array[
    made ->> 'group', coalesce(made ->> 'next', made ->> 'last'), made ->> 'partition'
  ], null));
  return made;
end
$$;
