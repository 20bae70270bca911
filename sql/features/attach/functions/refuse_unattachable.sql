-- Raise GL404 or GL400 for a relation that cannot be attached: it is no table, it belongs to gapless or to the server,
-- or a trigger on it would not see every row.
create or replace function gapless.refuse_unattachable(_source text, _table oid) returns void
language plpgsql stable as $$
declare
  kind "char";
  lasting "char";
  place name;
  why text;
begin
  if _table is null then
    raise exception 'there is no table "%": name it as SQL does, schema and all', _source using errcode = 'GL404';
  end if;
  select r.relkind, r.relpersistence, n.nspname into kind, lasting, place
  from pg_class r join pg_namespace n on n.oid = r.relnamespace where r.oid = _table;
  why := case
    when place = 'gapless' then 'belongs to gapless itself: attach a table of your own'
    when place in ('pg_catalog', 'information_schema') then 'belongs to the server: attach a table of your own'
    when kind = 'v' then 'is a view: attach the table that it reads'
    when kind = 'm' then 'is a materialized view: attach the table that it reads'
    when kind = 'f' then 'is a foreign table, where no trigger sees the writes of others: attach it where it lies'
    when kind = 'p' then 'is partitioned, and writes directly to a partition are not seen: gapless capture '
      'takes such tables'
    when kind <> 'r' then 'is no table: attach a table'
    when lasting = 't' then 'is temporary: attach one that lasts'
    when lasting = 'u' then 'is unlogged, so a crash empties it and nobody is told: alter table … set logged'
    when exists (select from pg_inherits i where _table in (i.inhrelid, i.inhparent))
      then 'is a part of another table, or has parts: attach a table of its own'
  end;
  if why is not null then
    raise exception '% %', _table::regclass, why using errcode = 'GL400';
  end if;
end
$$;
