-- name: in_status
-- Groups that take some events only, with counts. unasked_s: how long ago the filter could not be evaluated.
-- returns: gapless.features.filters.section:Filtered
select f.group_id, f.topic,
  concat_ws(' ', array_to_string(f.event_types, ', '), 'where ' || f.condition) as takes,
  f.kept, f.passed, f.unasked, f.unasked_partition, f.unasked_offset, f.unasked_why,
  case
    when f.unasked_ts is not null then greatest(extract(epoch from now() - f.unasked_ts), 0)
  end::double precision as unasked_s
from gapless.filters f
join gapless.topic t on t.name = f.topic
join gapless.consumer_group g on g.group_id = f.group_id and g.topic_id = t.topic_id
where not g.is_scratch
order by f.group_id, f.topic

-- name: subscribed_in_status
-- Groups with subscriptions, and those that lost their last one.
-- returns: gapless.features.filters.subscribed:Subscribed
select v.group_id, v.topic, v.subscriptions, v.forms, v.may_expire, v.near, v.stopped,
  extract(epoch from v.first_left)::float8 as first_left_s
from gapless.subscribed_groups v
order by v.group_id, v.topic

-- name: set_filter
select gapless.set_filter(
  %(group_id)s, %(topic)s, %(event_types)s::text[], %(where)s::text, %(params)s::text::jsonb
)

-- name: clear_filter
select gapless.clear_filter(%(group_id)s, %(topic)s)

-- name: filters
-- returns: gapless.features.filters.ops:GroupFilter
select f.group_id as "group", f.topic, f.event_types, f.condition as "where", f.params, f.set_by,
  f.set_ts as set_at, f.kept, f.passed, f.unasked, f.unasked_partition, f.unasked_offset, f.unasked_why
from gapless.filters f
where f.group_id = %(group)s and (%(topic)s::text is null or f.topic = %(topic)s)
order by f.topic

-- name: takes
-- Whether a group's filter, or its subscriptions, take the event at an offset; SQL conditions are not evaluated.
-- takes_all: the group has neither a filter nor subscriptions. No row: there is no such event any more.
-- returns: gapless.features.filters.trial:TakenRow
select f.group_id is null as takes_all, k.kept_offsets <> '{}' as takes, k.filter_errors[1] as error,
  array(
    select s.name from gapless.subscription s
    where s.subscription_id = any (string_to_array(k.matched[1], ',')::bigint[])
    order by s.name
  ) as subscriptions
from gapless.topic t
join gapless.consumer_group g on g.group_id = %(group)s and g.topic_id = t.topic_id
left join gapless.group_filter f on f.group_id = g.group_id and f.topic_id = t.topic_id
cross join lateral gapless.kept_in(
  t.topic_id, %(partition)s, %(offset)s, %(offset)s, f,
  case when t.direct then coalesce(g.stands_for, g.group_id) end
) k
where t.name = %(topic)s and k.upto = %(offset)s
