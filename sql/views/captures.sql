-- Captured tables, and what is wrong with each: null when every change of it is published.
-- table_id: of the table that has the triggers, or had that name; null: it is gone.
create or replace view gapless.captures as
select
  c.capture_id,
  coalesce(format('%I.%I', n.nspname, r.relname), c.table_name) as table_name,
  r.oid as table_id,
  t.name as topic,
  c.key,
  c.columns,
  c.old,
  c.captured_by::text as captured_by,
  c.created_ts,
  p.problem,
  case p.mended_by
    when 'mend' then format('gapless capture mend %s', format('%I.%I', n.nspname, r.relname))
    when 'remove' then format('gapless capture remove %s', c.table_name)
    when 'again' then format('gapless capture remove %I.%I, then add it anew', n.nspname, r.relname)
  end as remedy
from gapless.captured c
left join gapless.topic t using (topic_id)
left join lateral (
  select coalesce(
    (
      select g.tgrelid from gapless.capture_triggers() g
      where g.capture_id = c.capture_id and not g.on_partition order by g.tgrelid limit 1
    ),
    (select k.oid from pg_class k where k.oid = c.table_id and k.relkind in ('r', 'p')),
    to_regclass(c.table_name)
  ) as id
) w on true
left join pg_class r on r.oid = w.id
left join pg_namespace n on n.oid = r.relnamespace
left join lateral gapless.capture_problem(c, w.id) p on true;

comment on view gapless.captures is 'Captured tables, and what keeps changes of one from being published.';
