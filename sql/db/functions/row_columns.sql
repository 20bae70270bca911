-- Return the select list of a row r of a table as JSON has it: the given columns that are there, null: all, in the
-- table's order; '' when none is. A virtual column is not stored, so it is left out.
-- A value of a user-defined type comes as that type's text: to make JSON of it the server would call a cast that the
-- type's owner may have made, with the rights of gapless.
create or replace function gapless.row_columns(_table oid, _names name[]) returns text
language sql stable as $$
  select coalesce(
    string_agg(
      case
        when e.typnamespace = 'pg_catalog'::regnamespace
          or e.typtype = 'd' and e.typbasetype in (
            select b.oid from pg_type b where b.typnamespace = 'pg_catalog'::regnamespace
          )
          or e.typtype in ('b', 'e', 'r', 'm') and exists (
            select from pg_roles o where o.oid = e.typowner and (o.rolsuper or o.rolname = current_user)
          )
          then format('r.%I', a.attname)
        else format('case when num_nulls(r.%1$I) = 0 then concat(r.%1$I) end as %1$I', a.attname)
      end,
      ', ' order by a.attnum
    ),
    ''
  )
  from pg_attribute a
  join pg_type t on t.oid = a.atttypid
  join pg_type e on e.oid = case when t.typcategory = 'A' and t.typelem <> 0 then t.typelem else t.oid end
  where a.attrelid = _table and a.attnum > 0 and not a.attisdropped and a.attgenerated <> 'v'
    and (_names is null or a.attname = any (_names))
$$;
