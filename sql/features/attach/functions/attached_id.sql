-- Return the column whose numbers order the rows of a table: the named one, else the primary key. Raises GL400 unless
-- it has whole numbers, is unique by itself, and is never null.
create or replace function gapless.attached_id(_table oid, _wanted text) returns text
language plpgsql stable as $$
declare
  named text := coalesce(_wanted, (
    select min(a.attname) from pg_index i
    join pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[0]
    where i.indrelid = _table and i.indisprimary and i.indnkeyatts = 1
  ));
  number smallint;
  type oid;
  lacks boolean;
begin
  if named is null then
    raise exception '% has no ordered id: its primary key is no single column; name a unique column of whole numbers '
      '(--id)', _table::regclass
      using errcode = 'GL400';
  end if;
  number := (gapless.column_numbers(_table, array[named]))[1];
  select a.atttypid into type from pg_attribute a where a.attrelid = _table and a.attnum = number;
  if type not in ('int2'::regtype, 'int4'::regtype, 'int8'::regtype) then
    raise exception '% has no ordered id: column "%" is %, not of whole numbers; name one that is (--id)',
      _table::regclass, named, type::regtype
      using errcode = 'GL400';
  end if;
  if not exists (
    select from pg_index i
    where i.indrelid = _table and i.indisunique and i.indisvalid and i.indnkeyatts = 1 and i.indpred is null
      and i.indkey[0] = number
  ) then
    raise exception 'column "%" of % is not unique by itself: name one that is (--id), or make a unique index of it',
      named, _table::regclass
      using errcode = 'GL400';
  end if;
  execute format('select exists (select from only %s r where r.%I is null)', _table::regclass, named) into lacks;
  if lacks then
    raise exception 'some rows of % have no "%", so they have no place in its order: fill it, or name another (--id)',
      _table::regclass, named
      using errcode = 'GL400';
  end if;
  return named;
end
$$;
