-- name: list
-- returns: gapless.features.scheduled.ops:LaterEvent
-- The next ones first; the limit keeps it cheap however many wait.
select l.scheduled_id, l.topic, l.deliver_at, l.key, l.event_type, l.transaction_id, l.scheduled_by
from gapless.later l
where (%(topic)s::text is null or l.topic = %(topic)s)
  and (%(transaction_id)s::text is null or l.transaction_id = %(transaction_id)s::text::uuid)
  and (%(key)s::text is null or l.key = %(key)s)
  and (%(since)s::timestamptz is null or l.deliver_at >= %(since)s)
  and (%(until)s::timestamptz is null or l.deliver_at <= %(until)s)
order by l.deliver_at, l.scheduled_id
limit %(limit)s

-- name: totals
-- returns: gapless.features.scheduled.ops:LaterTotals
-- Counted up to a limit, as 10^7 may wait.
select x.scheduled, x.next_due,
  greatest(coalesce(extract(epoch from gapless.clock() - x.next_due), 0), 0)::float8 as late_s
from (
  select
    (select count(*) from (select from gapless.scheduled limit %(limit)s) c) as scheduled,
    (select s.deliver_at from gapless.scheduled s order by s.deliver_at limit 1) as next_due
) x

-- name: schedules
-- returns: gapless.features.scheduled.schedule_ops:ScheduleInfo
select s.name, s.topic, s.cron, s.every::text as every, s.zone, s.missed, s.next_due, s.last_due, s.fired,
  s.paused, s.trouble
from gapless.schedules s
where %(name)s::text is null or s.name = %(name)s
order by s.name

-- name: is_schedule
-- Whether a schedule has exactly these values, so that there is nothing to do.
select exists (
  select from gapless.schedule s
  join gapless.topic t using (topic_id)
  where s.name = %(name)s and t.name = %(topic)s
    and (s.cron, s.every, s.zone, s.missed, s.key, s.event_type, s.payload::text, s.headers)
      is not distinct from (%(cron)s::text, %(every)s::text::interval, %(zone)s::text, %(missed)s::text,
        %(key)s::text, %(event_type)s::text, %(payload)s::text, %(headers)s::text::jsonb)
    and (%(starts_at)s::text is null or s.starts_at = %(starts_at)s::text::timestamptz)
)

-- name: add_schedule
select gapless.add_schedule(
  %(name)s, %(topic)s, %(cron)s, %(every)s::text::interval, %(zone)s, %(payload)s::text::json, %(key)s,
  %(event_type)s, %(headers)s::text::jsonb, %(missed)s, %(starts_at)s::text::timestamptz
)

-- name: next_times
-- The next three due times of a schedule.
with recursive due (n, at) as (
  select 1, s.next_due from gapless.schedule s where s.name = %(name)s
  union all
  select d.n + 1, gapless.schedule_next(s, d.at)
  from due d, gapless.schedule s
  where s.name = %(name)s and d.n < 3 and d.at is not null
)
select d.at from due d where d.at is not null order by d.n

-- name: pause_schedule
select gapless.pause_schedule(%(name)s)

-- name: resume_schedule
select gapless.resume_schedule(%(name)s)

-- name: remove_schedule
select gapless.remove_schedule(%(name)s)

-- name: run_schedule
select gapless.run_schedule(%(name)s)

-- name: in_status
-- Waiting events. Counted up to a limit, as 10^7 may wait.
-- returns: gapless.features.scheduled.section:Later
select x.scheduled, x.next_ts, x.strays,
  greatest(coalesce(extract(epoch from gapless.clock() - x.next_ts), 0), 0)::double precision as late_s,
  x.schedules, x.paused, x.stopped
from (
  select
    w.scheduled,
    w.strays,
    least(
      (select s.deliver_at from gapless.scheduled s order by s.deliver_at limit 1),
      (select min(s.next_due) from gapless.schedule s where s.paused_ts is null)
    ) as next_ts,
    (select count(*) from gapless.schedule) as schedules,
    (select count(*) from gapless.schedule s where s.paused_ts is not null) as paused,
    array(
      select s.name || ': ' || coalesce(left(s.trouble, 200), 'topic ' || s.topic_id || ' is gone')
      from gapless.schedule s
      where s.trouble is not null
        or not exists (select from gapless.topic t where t.topic_id = s.topic_id)
      order by s.name limit 20
    ) as stopped
  from (
    select count(*) as scheduled,
      count(*) filter (where not exists (select from gapless.topic t where t.topic_id = c.topic_id))
        as strays
    from (select s.topic_id from gapless.scheduled s limit 10000) c
  ) w
) x

-- name: promote
select p.promoted, p.wait_s, p.low_at::text, p.low_id, p.due_s, p.held
from gapless.promote(%(max_events)s::int, %(low_at)s::text::timestamptz, %(low_id)s::bigint) p
