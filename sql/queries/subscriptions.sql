-- name: list
-- returns: gapless.ops.subscriptions:SubscriptionInfo
select s.group_id as "group", s.topic, s.name, s.match, s.condition as "where", s.params, s.set_by, s.set_ts as set_at
from gapless.subscriptions s
where s.group_id = %(group)s and (%(topic)s::text is null or s.topic = %(topic)s)
order by s.topic, s.name

-- name: subscribe
select gapless.subscribe(
  %(group)s, %(topic)s, %(name)s, %(match)s::text::jsonb, %(params)s::text::jsonb, %(where)s::text
)

-- name: unsubscribe
select gapless.unsubscribe(%(group)s, %(topic)s, %(name)s)
