-- Groups that take some events of a topic only, and which (functions/group/set_filter.sql); what the filter kept and
-- passed since it was set, and about how many it could not be asked, with the last of them.
create or replace view gapless.filters as
select
  f.group_id,
  t.name as topic,
  f.event_types,
  f.condition::text as condition,
  f.params,
  f.set_by,
  f.set_ts,
  coalesce(y.kept, 0)::bigint as kept,
  coalesce(y.passed, 0)::bigint as passed,
  coalesce(y.unasked, 0)::bigint as unasked,
  l.partition_id as unasked_partition,
  l.unasked_offset,
  l.unasked_why,
  l.unasked_ts
from gapless.group_filter f
join gapless.topic t using (topic_id)
left join lateral (
  select sum(n.kept) as kept, sum(n.passed) as passed, sum(n.unasked) as unasked
  from gapless.filter_tally n
  where n.group_id = f.group_id and n.topic_id = f.topic_id and n.filter_no = f.filter_no
) y on true
left join lateral (
  select n.partition_id, n.unasked_offset, n.unasked_why, n.unasked_ts
  from gapless.filter_tally n
  where n.group_id = f.group_id and n.topic_id = f.topic_id and n.filter_no = f.filter_no
    and n.unasked > 0
  order by n.unasked_ts desc
  limit 1
) l on true
where not f.subscribed;

comment on view gapless.filters is 'Groups that take some events of a topic only: which, and what that came to.';
