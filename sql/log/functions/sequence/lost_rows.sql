-- Return the first table that lacks rows which other tables need, after a restore that failed in part; null: none is
-- known. Where it is cheap each row is checked, else whether all are gone. Each room names its own rows:
-- parts/needed_rows.sql.
-- Tables that may be empty in a living schema, and to which no other table refers, are not checked: barrier,
-- group_pause and tables for people.
create or replace function gapless.lost_rows() returns text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  each record;
  is_lost boolean;
begin
  for each in
    select n.* from (select n.*, row_number() over () as no from gapless.needed_rows n) n
    order by n.key is not null, n.needed is not null, n.no
  loop
    execute case
      when each.needed is null then format('select not exists (select from gapless.%I)', each.lost)
      when each.key is null then format(
        'select not exists (select from gapless.%I) and exists (select from gapless.%s)', each.lost, each.needed
      )
      else format('select exists (select %1$s from gapless.%2$s except select %1$s from gapless.%3$I)',
        each.key, each.needed, each.lost)
    end into is_lost;
    if is_lost then
      return each.lost;
    end if;
  end loop;
  return null;
end
$$;
