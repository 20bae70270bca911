-- Attached tables, with the problem of each: null when every row of it is published, as it is. table_id null: it is
-- gone.
create or replace view gapless.attachments as
select
  a.attachment_id, w.name as table_name, r.oid as table_id, t.name as topic, a.id_column, a.map, a.places,
  a.copied_to, a.live_ts,
  a.attached_by::text as attached_by,
  a.created_ts,
  array(
    select format('%s: %s', g.group_id, g.state) from gapless.attached_group g
    where g.attachment_id = a.attachment_id order by 1
  ) as groups,
  p.problem,
  case p.mended_by
    when 'mend' then format('gapless attach mend %s', w.word)
    when 'remove' then format('gapless attach remove %s', w.word)
    when 'again' then format('gapless attach remove %s, then add it anew', w.word)
    when 'map' then format('gapless attach add %s %s', w.word, gapless.attached_words(a, r.oid))
    when 'despite' then format(
      'gapless attach add %s %s --despite-changes, if all had read these rows',
      w.word, gapless.attached_words(a, r.oid)
    )
  end as remedy
from gapless.attached a
left join gapless.topic t using (topic_id)
left join pg_class r on r.oid = gapless.attached_table(a)
left join pg_namespace n on n.oid = r.relnamespace
cross join lateral (
  select x.name, case when x.name ~ '^[[:alnum:]_.]+$' then x.name else quote_literal(x.name) end as word
  from (
    select case when r.oid is null then a.table_name else format('%I.%I', n.nspname, r.relname) end as name
  ) x
) w
left join lateral gapless.attachment_problem(a, r.oid) p on true;

comment on view gapless.attachments is 'Attached tables, and what keeps rows of one from being published.';
