-- Return the numbers of columns by their names, in that order; null for null. Raises GL400 for a missing or virtual
-- column.
create or replace function gapless.column_numbers(_table oid, _names text[]) returns smallint[]
language plpgsql stable as $$
declare
  numbers smallint[] := '{}';
  wanted text;
  number smallint;
  generated "char";
begin
  if _names is null then
    return null;
  end if;
  foreach wanted in array _names loop
    select a.attnum, a.attgenerated into number, generated from pg_attribute a
    where a.attrelid = _table and a.attname = wanted and a.attnum > 0 and not a.attisdropped;
    if not found then
      raise exception '% has no column "%": it has %', _table::regclass, wanted, (
        select string_agg(quote_ident(a.attname), ', ' order by a.attnum) from pg_attribute a
        where a.attrelid = _table and a.attnum > 0 and not a.attisdropped
      )
        using errcode = 'GL400';
    end if;
    if generated = 'v' then
      raise exception 'column "%" of % is virtual, so no trigger sees it: leave it out, or make it stored',
        wanted, _table::regclass
        using errcode = 'GL400';
    end if;
    numbers := numbers || number;
  end loop;
  return numbers;
end
$$;
