-- Captured tables, with the problem of each: null when every change of it is published. table_id: of the table that has
-- the triggers, or had that name; null: it is gone.
create or replace view gapless.captures as
select
  c.capture_id,
  w.name as table_name,
  r.oid as table_id,
  t.name as topic,
  c.key,
  c.columns,
  c.old,
  c.captured_by::text as captured_by,
  c.created_ts,
  p.problem,
  case p.mended_by
    when 'mend' then format('gapless capture mend %s', w.word)
    when 'remove' then format('gapless capture remove %s', w.word)
    when 'again' then format('gapless capture remove %s, then add it anew', w.word)
  end as remedy
from gapless.captured c
left join gapless.topic t using (topic_id)
left join lateral (
  select coalesce(
    -- The usual case first: an index finds it, where the next one looks at the triggers of all captures.
    (
      select g.tgrelid from gapless.capture_triggers() g
      where g.tgrelid = c.table_id and g.capture_id = c.capture_id and not g.on_partition limit 1
    ),
    (
      select g.tgrelid from gapless.capture_triggers() g
      where g.capture_id = c.capture_id and not g.on_partition order by g.tgrelid limit 1
    ),
    (select k.oid from pg_class k where k.oid = c.table_id and k.relkind in ('r', 'p')),
    -- Not to_regclass(): it refuses roles that may not use the schema.
    (
      select k.oid from pg_class k join pg_namespace s on s.oid = k.relnamespace
      where format('%I.%I', s.nspname, k.relname) = c.table_name and k.relkind in ('r', 'p')
    )
  ) as id
) f on true
left join pg_class r on r.oid = f.id
left join pg_namespace n on n.oid = r.relnamespace
cross join lateral (
  select x.name, case when x.name ~ '^[[:alnum:]_.]+$' then x.name else quote_literal(x.name) end as word
  from (
    select case when r.oid is null then c.table_name else format('%I.%I', n.nspname, r.relname) end as name
  ) x
) w
left join lateral gapless.capture_problem(c, f.id) p on true;

comment on view gapless.captures is 'Captured tables, and what keeps changes of one from being published.';
