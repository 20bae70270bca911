-- Check the arguments of capture() and return them in the form of the table; raises GL400 and GL404, in one sentence.
create or replace function gapless.checked_capture(_source text, _topic text, _key text, _columns text[], _old text)
returns gapless.captured
language plpgsql stable as $$
declare
  made gapless.captured;
  part text;
begin
  made.table_id := gapless.table_of(_source);
  perform gapless.refuse_uncapturable(_source, made.table_id);
  select format('%I.%I', n.nspname, r.relname) into made.table_name
  from pg_class r join pg_namespace n on n.oid = r.relnamespace where r.oid = made.table_id;
  if _topic is null then
    raise exception 'name the topic that the changes of % go to: topic => ''orders.changes''', made.table_name
      using errcode = 'GL400';
  end if;
  made.topic_id := gapless.topic_id(_topic);
  if _old is null or _old not in ('none', 'changed', 'all') then
    raise exception 'old is ''none'', ''changed'' or ''all'', not %', coalesce(quote_literal(_old), 'null')
      using errcode = 'GL400';
  end if;
  made.old := _old;
  if cardinality(_columns) = 0 then
    raise exception 'columns is empty: name those that the payload of % has, or leave columns out', made.table_name
      using errcode = 'GL400';
  end if;
  made.columns := _columns;
  made.column_numbers := gapless.column_numbers(made.table_id, _columns);
  made.key := _key;
  if _key is not null then
    made.key_parts := gapless.key_parts(_key);
    made.key_numbers := gapless.column_numbers(
      made.table_id,
      array(select p from unnest(made.key_parts) with ordinality u (p, n) where n % 2 = 0 order by n)
    );
  elsif not exists (select from pg_index i where i.indrelid = made.table_id and i.indisprimary) then
    raise exception '% has no primary key: name a column that keeps its events in order, key => ''{column}''',
      made.table_name
      using errcode = 'GL400';
  end if;
  return made;
end
$$;
