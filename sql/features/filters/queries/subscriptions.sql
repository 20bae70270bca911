-- name: list
-- returns: gapless.features.filters.subscriptions:SubscriptionInfo
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

-- name: limit_resume
-- Before it is resumed: a minute, for locks, and 5 ms for each missed event; less where the session's limit is lower.
select current_setting('statement_timeout'),
  set_config(
    'statement_timeout',
    case
      when current_setting('statement_timeout')::interval between '1 ms' and make_interval(secs => m.ms / 1000)
        then current_setting('statement_timeout')
      else m.ms::bigint::text
    end,
    true
  )
from (
  select least(60000 + 5 * coalesce(sum(c.next_offset - p.from_offset), 0), 2147483647)::float8 as ms
  from gapless.subscription s
  join gapless.topic t using (topic_id)
  join gapless.subscription_stop p using (subscription_id)
  join gapless.consumer_offsets c using (group_id, topic_id, partition_id)
  where s.group_id = %(group)s and t.name = %(topic)s and s.name = %(name)s
) m

-- name: limit_back
select set_config('statement_timeout', %(limit)s, true)

-- name: resume_subscription
select gapless.resume_subscription(%(group)s, %(topic)s, %(name)s)

-- name: unsubscribe
select gapless.unsubscribe(%(group)s, %(topic)s, %(name)s)
