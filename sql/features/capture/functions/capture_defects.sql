-- Return the problems of the triggers and columns of a captured table; mendable: mend_capture() helps.
-- plan: the triggers of each table by their index (limit keeps the lookup lateral): status looks at all captures.
create or replace function gapless.capture_defects(_asked gapless.captured, _root oid)
returns table (n int, said text, mendable boolean)
language sql stable as $$
  with wanted as (
    select x.relid, o.operation, x.relid <> _root as is_part
    from gapless.captured_tables(_root) x
    cross join unnest(array['insert', 'update', 'delete', 'truncate']) o (operation)
  ),
  ill as (
    select w.is_part, w.relid, w.operation, coalesce(t.tgenabled, '-') as enabled
    from wanted w
    left join lateral (
      select g.tgenabled from gapless.capture_triggers() g
      where g.tgrelid = w.relid and g.tgname = 'gapless_capture_' || w.operation
        and g.capture_id = _asked.capture_id and g.on_partition = w.is_part
      limit 1
    ) t on true
    where t.tgenabled is null or t.tgenabled not in ('O', 'A')
  ),
  named as (
    select u.name, 'columns'::text as wish, gapless.captured_column(_asked, _root, u.name, u.number) as now
    from unnest(_asked.columns, _asked.column_numbers) u (name, number)
    union all
    select u.part, 'key', gapless.captured_column(_asked, _root, u.part, _asked.key_numbers[u.n / 2])
    from unnest(_asked.key_parts) with ordinality u (part, n) where u.n % 2 = 0
  )
  select 1, format('no trigger for %s', string_agg(i.operation, ', ' order by i.operation)), true
  from ill i where not i.is_part and i.enabled = '-' having count(*) > 0
  union all
  select 2, format('the trigger for %s is disabled', string_agg(i.operation, ', ' order by i.operation)), true
  from ill i where not i.is_part and i.enabled <> '-' having count(*) > 0
  union all
  select 3, format(
      'writes directly to %s of its partitions are not published, such as %s',
      count(distinct i.relid), min(i.relid::regclass::text)
    ), true
  from ill i where i.is_part having count(*) > 0
  union all
  select 4, format('column "%s" of %s is called "%s" now', d.name, d.wish, d.now), true
  from named d where d.now <> d.name
  union all
  select 5, format('column "%s" of %s is gone', d.name, d.wish), false
  from named d where d.now is null
  union all
  select 6, 'it has no primary key any more, so all its events have one key', false
  where _asked.key is null and not exists (select from pg_index i where i.indrelid = _root and i.indisprimary)
  union all
  select 7, 'it has children by INHERITS now, whose rows are not published: alter table … no inherit', false
  from pg_class r
  where r.oid = _root and r.relkind = 'r' and exists (select from pg_inherits i where i.inhparent = _root)
  union all
  select 8, 'it is unlogged now, so a crash empties it and nobody is told: alter table … set logged', false
  from pg_class r where r.oid = _root and r.relpersistence = 'u'
$$;
