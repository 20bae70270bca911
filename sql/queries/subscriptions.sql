-- name: list
-- returns: gapless.ops.subscriptions:SubscriptionInfo
select s.group_id as "group", s.topic, s.name, s.match, s.condition as "where", s.sql_condition, s.params,
  s.set_by, s.set_ts as set_at,
  extract(epoch from s.expires_after)::float8 as expires_after_s,
  extract(epoch from s.time_left)::float8 as left_s,
  coalesce(s.stopped_partitions, '{}') as stopped_partitions, s.stopped_why
from gapless.subscriptions s
where s.group_id = %(group)s and (%(topic)s::text is null or s.topic = %(topic)s)
order by s.topic, s.name

-- name: subscribe
select gapless.subscribe(
  %(group)s, %(topic)s, %(name)s, %(match)s::text::jsonb, %(params)s::text::jsonb, %(where)s::text,
  make_interval(secs => %(expires_after_s)s), %(sql_condition)s::text
)

-- name: renew_subscription
select gapless.renew_subscription(%(group)s, %(topic)s, %(name)s)

-- name: resume_subscription
select gapless.resume_subscription(%(group)s, %(topic)s, %(name)s)

-- name: unsubscribe
select gapless.unsubscribe(%(group)s, %(topic)s, %(name)s)
