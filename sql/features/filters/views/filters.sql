-- Groups that take only some events of a topic, with their filters (set_filter()); the numbers of events that the
-- filter matched and passed since it was set, and of those for which it could not be evaluated, with the last of these.
create or replace view gapless.filters as
select
  f.group_id, t.name as topic, f.event_types,
  f.condition::text as condition,
  f.params, f.set_by, f.set_ts,
  coalesce(y.kept, 0)::bigint as kept,
  coalesce(y.passed, 0)::bigint as passed,
  coalesce(y.unasked, 0)::bigint as unasked,
  (y.last).partition_id as unasked_partition,
  (y.last).unasked_offset,
  (y.last).unasked_why,
  (y.last).unasked_ts
from gapless.group_filter f
join gapless.topic t using (topic_id)
left join lateral (
  select sum((n.tally).kept) as kept, sum((n.tally).passed) as passed, sum((n.tally).unasked) as unasked,
    (array_agg(n.tally order by (n.tally).unasked_ts desc) filter (where (n.tally).unasked > 0))[1] as last
  from gapless.all_offsets c
  cross join lateral (    -- the newest version, as there
    select x as tally from gapless.filter_tally x
    where x.group_id = f.group_id and x.topic_id = f.topic_id
      and x.partition_id between c.partition_id and c.partition_id
    order by x.partition_id desc limit 1
  ) n
  where c.group_id = f.group_id and c.topic_id = f.topic_id and (n.tally).filter_no = f.filter_no
) y on true
where not f.subscribed;

comment on view gapless.filters is
  'Groups that take some events of a topic only, with their filters and the counts of these.';
