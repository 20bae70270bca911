-- name: webhooks
-- returns: gapless.features.webhooks.ops:WebhookInfo
select w.name, w.topic, w.url, w.secrets, w.event_types, w.condition as "where", w.params, w.rate, w.concurrency,
  w.keeps_order, w.retry_delays_s, w.paused, w.pause_reason, w.lag, w.waiting, w.dead, w.is_run, w.delivered, w.failed,
  w.last_error, w.last_ts as last_at, w.circuit_ts as circuit_open_since, w.shared, w.trouble
from gapless.webhooks w
where (%(name)s::text is null or w.name = %(name)s)
  and (%(after)s::text is null or w.name > %(after)s)
order by w.name
limit %(limit)s

-- name: add
select gapless.add_webhook(
  %(name)s, %(topic)s, %(url)s, %(secrets)s::text[], %(event_types)s::text[], %(where)s::text,
  %(params)s::text::jsonb, %(rate)s::double precision, %(concurrency)s, %(keeps_order)s, %(retry_delays_s)s::int[],
  %(allow_http)s, %(start)s, %(shared)s, %(matches)s::text::jsonb, %(sql_condition)s::text
)

-- name: remove
select gapless.remove_webhook(%(name)s)

-- name: purge
select gapless.purge_webhooks()

-- name: pause
select gapless.pause_webhook(%(name)s, %(reason)s)

-- name: resume
select gapless.resume_webhook(%(name)s)

-- name: replay
select gapless.replay_webhook(%(name)s, coalesce(%(since)s::timestamptz, clock_timestamp() - %(age)s::interval))

-- name: any_gone
-- Whether purge has something to do.
select exists (select from gapless.webhook w where w.removed_ts is not null)
  or exists (select from gapless.webhook_attempt a where a.at_ts < gapless.attempts_since())

-- name: attempts
-- The newest first. failed: only those without an answer of 2xx.
-- returns: gapless.features.webhooks.ops:WebhookAttempt
-- index: webhook_attempt_pkey
select a.attempt_no as id, a.at_ts as at, a.topic, a.partition_id as "partition", a.first_offset as "offset",
  a.event_type, a.attempt, a.status, a.answer, round(a.took_ms::numeric, 1)::double precision as took_ms
from gapless.webhook_attempts a
where a.name = %(name)s
  and (%(before)s::bigint is null or a.attempt_no < %(before)s)
  and (not %(failed)s::boolean or (a.status between 200 and 299) is not true)
order by a.attempt_no desc
limit %(limit)s

-- name: declared
-- A supervisor's view of each webhook.
-- returns: gapless.features.webhooks.record:DeclaredWebhook
select w.name, t.name as topic, t.partitions, w.concurrency, w.keeps_order, w.rate, w.retry_delays_s
from gapless.webhook w
join gapless.topic t using (topic_id)
where w.removed_ts is null and not w.shared
order by w.name

-- name: endpoint
-- A delivering worker's view of one; no row: it was removed. workers: sessions that deliver for it, by their locks.
-- now_s: the database's clock.
-- returns: gapless.features.webhooks.record:Endpoint
select w.url, w.secrets, w.allow_http, w.rate, s.circuit_ts is not null as is_open,
  gapless.webhook_workers(gapless.group_of_webhook(w)) as workers,
  extract(epoch from clock_timestamp())::double precision as now_s
from gapless.webhook w
join gapless.webhook_state s on s.name = w.name
where w.name = %(name)s and w.removed_ts is null

-- name: declared_shared
-- The topics whose webhooks share a group.
-- returns: gapless.features.webhooks.record:SharedWebhooks
select t.name as topic, t.partitions
from gapless.topic t
where exists (
  select from gapless.webhook w where w.topic_id = t.topic_id and w.shared and w.removed_ts is null
)
order by t.name

-- name: shared
-- A delivering worker's view of those that share a topic's group; probe_due: it may be tried.
-- returns: gapless.features.webhooks.record:SharedEndpoint
select w.name, w.url, w.secrets, w.allow_http, w.rate, gapless.is_stopped_webhook(w) as is_stopped,
  s.circuit_ts is not null and (
    s.probe_ts > clock_timestamp() - make_interval(secs => %(every_s)s)
    and s.probe_ts <= clock_timestamp() + make_interval(secs => %(every_s)s)
  ) is not true as probe_due
from gapless.webhook w
join gapless.topic t using (topic_id)
join gapless.webhook_state s on s.name = w.name
where t.name = %(topic)s and w.shared and w.removed_ts is null

-- name: shared_clock
-- The database's clock, in seconds since 1970, and the number of processes that deliver for a topic's group, by their
-- locks.
select extract(epoch from clock_timestamp())::double precision,
  gapless.webhook_workers(gapless.shared_webhook_group(%(topic)s))

-- name: stopped_at
-- The offsets from which on these subscriptions are stopped in a partition: later events wait in the log for them, and
-- are set aside when they are resumed.
select p.subscription_id, p.from_offset
from gapless.subscription_stop p
where p.subscription_id = any (%(ids)s::bigint[]) and p.partition_id = %(partition_id)s

-- name: note_shared
select gapless.note_webhooks(%(names)s::text[], %(delivered)s::bigint[], %(failed)s::bigint[], %(errors)s::text[]),
  gapless.record_attempts(
    %(each_max)s, %(of)s::text[], %(at_s)s::double precision[], %(took_ms)s::double precision[], %(partitions)s::int[],
    %(offsets)s::bigint[], %(types)s::text[], %(attempts)s::int[], %(statuses)s::int[], %(answers)s::text[]
  )

-- name: stop_shared
select gapless.stop_webhook(%(name)s, %(reason)s, %(tries)s)

-- name: answered
-- All at once: each takes the fence away.
select gapless.answered_webhook(u.name) from unnest(%(names)s::text[]) u (name)

-- name: note
select gapless.note_webhook(
  %(name)s, %(delivered)s::bigint, %(failed)s::bigint, %(error)s::text, %(is_open)s::boolean
), gapless.record_attempts(
  %(each_max)s, %(of)s::text[], %(at_s)s::double precision[], %(took_ms)s::double precision[], %(partitions)s::int[],
  %(offsets)s::bigint[], %(types)s::text[], %(attempts)s::int[], %(statuses)s::int[], %(answers)s::text[]
)

-- name: probe
select gapless.probe_webhook(%(name)s, make_interval(secs => %(every_s)s))

-- name: stop
select gapless.stop_webhook(%(name)s, %(reason)s)
