-- name: units
-- Units that were set aside, filtered by any of their attributes (null: any value); newest failure first.
-- returns: gapless.ops.dlq.records:DlqRow
select
  d.group_id as "group", t.name as topic, d.partition_id as partition, d.first_offset as "offset", d.events,
  e.key, e.event_type, d.state, d.attempts, d.last_failed_ts as failed, d.next_attempt_ts as next_attempt,
  left(d.reason, 200) as error
from gapless.find_letters(
  %(group)s, %(topic)s, %(partition)s, %(states)s, %(since)s, %(age)s, %(until)s, %(error)s, %(error_form)s,
  %(key)s, %(event_type)s
) d
join gapless.topic t using (topic_id)
join gapless.dead_letter_event e
  on e.group_id = d.group_id and e.topic_id = d.topic_id and e.partition_id = d.partition_id
  and e.c_offset = d.first_offset
order by d.last_failed_ts desc, d.group_id, t.name, d.partition_id, d.first_offset desc
limit %(limit)s offset %(skip)s

-- name: summary
-- The same units, counted by group, topic and the form of their error; or by type, or by day (UTC), instead of that.
-- returns: gapless.ops.dlq.summary:DlqCause
select
  c.group_id as "group", t.name as topic, c.cause, c.exception_class, c.units, sum(c.units) over ()::bigint as total,
  c.first_ts as first_failed, c.last_ts as failed
from (
  select
    d.group_id, d.topic_id,
    case when %(by)s::text = 'error' then d.exception_class end as exception_class,
    case %(by)s::text
      when 'error' then d.error_form
      when 'day' then to_char(d.last_failed_ts at time zone 'UTC', 'YYYY-MM-DD')
      else e.event_type
    end as cause,
    count(*) as units, min(d.first_failed_ts) as first_ts, max(d.last_failed_ts) as last_ts
  from gapless.find_letters(
    %(group)s, %(topic)s, %(partition)s, %(states)s, %(since)s, %(age)s, %(until)s, %(error)s, %(error_form)s,
    %(key)s, %(event_type)s
  ) d
  -- A join, so that many are read as the table is stored; of another question it reads none.
  left join gapless.dead_letter_event e
    on %(by)s::text = 'type' and e.group_id = d.group_id and e.topic_id = d.topic_id
    and e.partition_id = d.partition_id and e.c_offset = d.first_offset
  group by 1, 2, 3, 4
) c
join gapless.topic t using (topic_id)
order by c.units desc, c.last_ts desc, 1, 2, 3
limit %(limit)s

-- name: count
select count(*) from gapless.find_letters(
  %(group)s, %(topic)s, %(partition)s, %(states)s, %(since)s, %(age)s, %(until)s, %(error)s, %(error_form)s,
  %(key)s, %(event_type)s
) d

-- name: redrives
-- Units that people had handled again, since then, and how far they are; a unit that was only waiting leaves no row
-- once it is handled.
-- returns: gapless.ops.dlq.summary:DlqRedrive
-- index: dead_letter_redriven
select
  d.group_id as "group", t.name as topic, d.redriven_by as who,
  min(d.redriven_ts) as began, max(d.redriven_ts) as asked, count(*) as units,
  count(*) filter (where d.state = 'redriven') as handled,
  count(*) filter (where d.state = 'dead' or d.state = 'waiting' and d.last_failed_ts > d.redriven_ts) as failed,
  count(*) filter (where d.state = 'waiting' and d.last_failed_ts <= d.redriven_ts) as unhandled,
  max(d.closed_ts) filter (where d.state = 'redriven') as handled_last
from gapless.dead_letter d
join gapless.topic t using (topic_id)
where d.redriven_ts >= coalesce(%(since)s::timestamptz, now() - %(age)s::interval)
  and (%(group)s::text is null or d.group_id = %(group)s)
  and (%(topic)s::text is null or t.name = %(topic)s)
group by 1, 2, 3
order by asked desc, 1, 2
limit 100

-- name: knows_group
select exists (select from gapless.consumer_group g where g.group_id = %(name)s)
  or exists (select from gapless.dead_letter d where d.group_id = %(name)s)

-- name: knows_topic
select exists (select from gapless.topic t where t.name = %(name)s)

-- name: unit
-- The unit that contains an offset.
-- returns: gapless.ops.dlq.records:DlqUnit
select
  d.group_id as "group", t.name as topic, d.partition_id as partition, d.first_offset as "offset",
  d.last_offset, d.events, d.transaction_id, d.state, d.attempts, d.crashes,
  d.next_attempt_ts as next_attempt, d.reason, d.exception, d.exception_class, d.sqlstate, d.worker,
  d.duration_ms, d.first_failed_ts as first_failed, d.last_failed_ts as failed, d.died_ts as died,
  d.redriven_by, d.redriven_ts as redriven, d.closed_ts as closed, d.discarded_by, d.discard_reason
from gapless.dead_letter d
join gapless.topic t using (topic_id)
where d.group_id = %(group)s and t.name = %(topic)s and d.partition_id = %(partition)s
  and d.first_offset <= %(offset)s and d.last_offset >= %(offset)s

-- name: events
-- The events of a unit, in offset order; payload and headers as JSON text.
-- returns: gapless.ops.dlq.records:DlqEvent
select
  e.c_offset as "offset", e.message_id, e.key, e.event_type, e.host_id, e.user_id, e.transaction_id,
  e.created_ts as published,
  e.headers::text as headers,
  e.payload::text as payload
from gapless.dead_letter_event e
join gapless.topic t using (topic_id)
where e.group_id = %(group)s and t.name = %(topic)s and e.partition_id = %(partition)s
  and e.c_offset between %(offset)s and %(last_offset)s
order by e.c_offset
limit %(limit)s

-- name: alike
-- returns: gapless.ops.dlq.records:SameError
select d.error_form as cause, (
  select count(*) from gapless.dead_letter o
  where o.group_id = d.group_id and o.topic_id = d.topic_id and o.error_form = d.error_form
    and o.state in ('waiting', 'parked', 'dead')
) as units
from gapless.dead_letter d
join gapless.topic t using (topic_id)
where d.group_id = %(group)s and t.name = %(topic)s and d.partition_id = %(partition)s and d.first_offset = %(offset)s

-- name: behind
-- The units parked behind one, in its own partition or another.
-- returns: gapless.ops.dlq.records:ParkedBehind
select b.parked_partition as partition, b.parked_offset as "offset", b.events
from gapless.topic t
cross join lateral gapless.parked_after(
  %(group)s, t.topic_id, %(partition)s, %(offset)s
) b
where t.name = %(topic)s
order by b.parked_partition <> %(partition)s, b.parked_partition, b.parked_offset

-- name: ahead
-- The unit for which a parked one waits: the earliest that holds one of its keys.
-- returns: gapless.ops.dlq.records:ParkedAhead
select a.partition_id as partition, a.first_offset as "offset"
from gapless.topic t
join gapless.dead_letter_key m
  on m.topic_id = t.topic_id and m.group_id = %(group)s and m.partition_id = %(partition)s
  and m.first_offset = %(offset)s
join gapless.dead_letter_key a
  on a.group_id = m.group_id and a.topic_id = m.topic_id and a.key_digest = m.key_digest
cross join lateral gapless.layout_of(a.topic_id, a.partition_id, a.first_offset) as its_layout
where t.name = %(topic)s and gapless.is_ahead(
  a.topic_id, a.partition_id, a.first_offset, m.partition_id, m.first_offset
)
order by its_layout, a.first_offset
limit 1

-- name: kin
-- Other units of the same transaction that were set aside: in other partitions and topics.
-- returns: gapless.ops.dlq.records:SameTransaction
select distinct
  d.group_id as "group", t.name as topic, d.partition_id as partition, d.first_offset as "offset",
  d.state,
  (
    select count(*)
    from gapless.parked_after(d.group_id, d.topic_id, d.partition_id, d.first_offset)
  ) as behind
from gapless.dead_letter_event e
join gapless.dead_letter d
  on d.group_id = e.group_id and d.topic_id = e.topic_id and d.partition_id = e.partition_id
  and d.first_offset = e.first_offset
join gapless.topic t on t.topic_id = d.topic_id
where e.transaction_id = %(transaction)s and e.group_id = %(group)s
  and (t.name, d.partition_id, d.first_offset) <> (%(topic)s, %(partition)s, %(offset)s)
order by topic, partition, "offset"
limit 20

-- name: redrive
-- Several units in the order given, which MUST be that of their offsets: a worker takes the lowest due unit.
-- returns: gapless.ops.dlq.change:NumberedOutcome
select u.n::int as n, gapless.redrive_letter(u."group", u.topic, u.partition, u."offset", %(who)s) as outcome
from unnest(%(groups)s::text[], %(topics)s::text[], %(partitions)s::int[], %(offsets)s::bigint[])
  with ordinality as u ("group", topic, partition, "offset", n)
order by u.n

-- name: discard
-- returns: gapless.ops.dlq.change:NumberedOutcome
select
  u.n::int as n,
  gapless.discard_letter(
    u."group", u.topic, u.partition, u."offset", %(reason)s, %(who)s
  ) as outcome
from unnest(%(groups)s::text[], %(topics)s::text[], %(partitions)s::int[], %(offsets)s::bigint[])
  with ordinality as u ("group", topic, partition, "offset", n)
order by u.n

-- name: mend
select gapless.mend_letter(
  %(group)s, %(topic)s, %(partition)s, %(offset)s, %(offsets)s::bigint[], %(event_types)s::text[],
  %(headers)s::text[], %(payloads)s::text[], %(who)s
)
