-- Store the present names of a captured table and its columns, and their numbers. A part of mend_capture().
create or replace function gapless.renew_capture(_capture_id int, _root oid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  asked gapless.captured;
begin
  select c.* into strict asked from gapless.captured c where c.capture_id = _capture_id for update;
  if asked.columns is not null then
    asked.columns := array(
      select coalesce(gapless.captured_column(asked, _root, u.name, u.number), u.name)
      from unnest(asked.columns, asked.column_numbers) with ordinality u (name, number, n) order by n
    );
  end if;
  if asked.key_parts is not null then
    asked.key_parts := array(
      select case
        when u.n % 2 = 1 then u.part
        else coalesce(gapless.captured_column(asked, _root, u.part, asked.key_numbers[u.n / 2]), u.part)
      end
      from unnest(asked.key_parts) with ordinality u (part, n) order by n
    );
    asked.key := (
      select string_agg(
        case
          when u.n % 2 = 1 then replace(replace(u.part, '{', '{{'), '}', '}}')
          else '{' || u.part || '}'
        end, '' order by u.n
      )
      from unnest(asked.key_parts) with ordinality u (part, n)
    );
  end if;
  update gapless.captured c
  set table_name = (
      select format('%I.%I', n.nspname, r.relname)
      from pg_class r join pg_namespace n on n.oid = r.relnamespace where r.oid = _root
    ),
    table_id = _root,
    columns = asked.columns,
    column_numbers = gapless.numbers_of(_root, asked.columns),
    key = asked.key,
    key_parts = asked.key_parts,
    key_numbers = gapless.numbers_of(
      _root,
      array(select p from unnest(asked.key_parts) with ordinality u (p, n) where u.n % 2 = 0 order by u.n)
    )
  where c.capture_id = _capture_id;
end
$$;
