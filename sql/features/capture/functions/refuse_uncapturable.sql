-- Raise GL404 or GL400 for a relation that cannot be captured: it is no table, it belongs to gapless or to the server,
-- or a trigger would not see every change.
create or replace function gapless.refuse_uncapturable(_source text, _table oid) returns void
language plpgsql stable as $$
declare
  kind "char";
  lasting "char";
  partition boolean;
  place name;
  above text;
  why text;
begin
  if _table is null then
    raise exception 'there is no table "%": name it as SQL does, schema and all', _source using errcode = 'GL404';
  end if;
  select r.relkind, r.relpersistence, r.relispartition, n.nspname into kind, lasting, partition, place
  from pg_class r join pg_namespace n on n.oid = r.relnamespace where r.oid = _table;
  select format('%I.%I', n.nspname, p.relname) into above
  from pg_inherits i
  join pg_class p on p.oid = coalesce(pg_partition_root(_table), i.inhparent)
  join pg_namespace n on n.oid = p.relnamespace
  where i.inhrelid = _table
  order by i.inhseqno limit 1;
  why := case
    when place = 'gapless' then 'belongs to gapless itself: capture a table of your own'
    when place in ('pg_catalog', 'information_schema') then 'belongs to the server: capture a table of your own'
    when kind = 'v' then 'is a view: capture the tables that it reads'
    when kind = 'm' then 'is a materialized view: capture the tables that it reads'
    when kind = 'f' then 'is a foreign table, where no trigger sees the writes of others: capture it where it lies'
    when kind not in ('r', 'p') then 'is no table: capture a table'
    when lasting = 't' then 'is temporary: capture one that lasts'
    when lasting = 'u' then 'is unlogged, so a crash empties it and nobody is told: alter table … set logged'
    when kind = 'r' and exists (select from pg_inherits i where i.inhparent = _table)
      then 'has children by INHERITS, whose rows its triggers do not see: alter table … no inherit'
    when above is not null and not partition then format(
      'is a child of %s by INHERITS, and is written to through that, too: alter table … no inherit', above
    )
    when above is not null then format('is a part of %s, and is written to through that: capture %s', above, above)
  end;
  if why is null and exists (
    select from gapless.captured_tables(_table) t join pg_class r on r.oid = t.relid where r.relkind = 'f'
  ) then
    why := 'has a foreign table among its partitions, of which no trigger sees the rows: detach that, then capture it';
  end if;
  if why is not null then
    raise exception '% %', _table::regclass, why using errcode = 'GL400';
  end if;
end
$$;
