-- Groups that take some events of a topic only, and which (functions/group/set_filter.sql).
create or replace view gapless.filters as
select
  f.group_id,
  t.name as topic,
  f.event_types,
  f.condition::text as condition,
  f.params,
  f.set_by,
  f.set_ts
from gapless.group_filter f
join gapless.topic t using (topic_id)
where not f.subscribed;

comment on view gapless.filters is 'Groups that take some events of a topic only, and which.';
