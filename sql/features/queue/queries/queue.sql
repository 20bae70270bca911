-- name: queue_places
-- The partitions of a topic as a queue group sees them, the partition with the largest backlog first.
select partition_id, lease_no, block, open, unfinished
from gapless.queue_places(%(group_id)s, %(topic_id)s)

-- name: queue_aside
-- Whether events are due that lapsed, were noted or set aside; else in how many seconds. None: no row, or nulls.
select due, wait_s
from gapless.queue_aside(%(group_id)s, %(topic_id)s)

-- name: sweep
select gapless.sweep(%(lease_no)s)

-- name: take_next
select outcome, first_offset, last_offset, claim_xid, place_after::text, base_offset, message_ids, unit_ends,
  timeline, id, key, event_type, payload, headers, host_id, user_id, transaction_id, xid, created_ts,
  cause, correlation
from gapless.take_next(
  %(group_id)s, %(topic_id)s, %(partition_id)s, %(lease_no)s, %(block)s, %(batch_size)s, %(hint)s
)

-- name: take_reserved
-- The same outside of a transaction: the token holds them for this worker for so long.
select outcome, first_offset, last_offset, claim_xid, place_after::text, base_offset, message_ids, unit_ends,
  timeline, id, key, event_type, payload, headers, host_id, user_id, transaction_id, xid, created_ts,
  cause, correlation
from gapless.take_next(
  %(group_id)s, %(topic_id)s, %(partition_id)s, %(lease_no)s, %(block)s, %(batch_size)s, %(hint)s,
  %(worker)s, %(token)s, clock_timestamp() + make_interval(secs => %(visibility_s)s)
)

-- name: reserve
-- At most max_events events of a topic, or those that other workers left ('aside'), for so long.
select receipt, partition_id, c_offset, attempts, crashes, is_letter, was_dead, timeline,
  id, key, event_type, payload, headers, host_id, user_id, transaction_id, xid, created_ts,
  cause, correlation
from gapless.reserve(
  %(group_id)s, %(topic_id)s, null, %(max_events)s, make_interval(secs => %(visibility_s)s),
  %(worker)s, %(what)s
)

-- name: begin_receipt
-- The first statement of a handler's transaction: reserved events count as handled if it commits.
select gapless.begin_receipt(%(receipt)s, %(c_offset)s)

-- name: acknowledge
-- Several at once, in one transaction: all, or GL003.
select gapless.acknowledge_runs(%(receipts)s, %(firsts)s, %(lasts)s)

-- name: fail_receipt
select gapless.fail_receipt(
  %(receipt)s, %(c_offset)s, %(state)s, %(reason)s, %(exception)s, %(exception_class)s,
  %(sqlstate)s, make_interval(secs => %(retry_after_s)s), %(worker)s, %(duration_ms)s, %(counted)s
)

-- name: release_receipt
select gapless.release_receipt(%(receipt)s, %(c_offset)s)

-- name: extend_receipt
select gapless.extend_receipt(%(receipt)s, make_interval(secs => %(visibility_s)s))

-- name: note_death
-- A worker died while it handled these events: they are tried one at a time from now on. No row: they were delivered on
-- a timeline that is gone, and their offsets may have other events now.
select gapless.note_death(%(lease_no)s, %(first_offset)s, %(last_offset)s, %(worker)s)
where gapless.timeline() = %(timeline)s

-- name: timeline
select gapless.timeline()

-- name: end_holder
-- Free all events that a process had reserved: it is gone. Null: not all yet.
select gapless.end_holder(%(worker)s)

-- name: group_channel
-- The channel that announces that a group was paused, resumed or moved.
select 'gapless_g_' || g.group_no
from gapless.consumer_group g
where g.group_id = %(group_id)s and g.topic_id = %(topic_id)s

-- name: take
-- returns: gapless.features.queue.ops:TakenEvent
select %(group)s::text as "group", %(topic)s::text as topic, t.receipt, t.partition_id as partition,
  t.c_offset as offset, t.attempt, t.key, t.event_type, t.payload,
  t.headers, t.host_id, t.user_id, t.transaction_id, t.created_ts as created
from gapless.take(
  %(group)s, %(topic)s, %(max_events)s, make_interval(secs => %(visibility_s)s)
) t
order by t.partition_id, t.c_offset

-- name: people_acknowledge
select gapless.acknowledge(%(group)s, %(topic)s, %(receipt)s, %(offset)s)

-- name: people_release
select gapless.release(
  %(group)s, %(topic)s, %(receipt)s, make_interval(secs => %(delay_s)s), %(offset)s, %(reason)s
)

-- name: people_reject
select gapless.reject(%(group)s, %(topic)s, %(receipt)s, %(reason)s, %(offset)s)

-- name: people_extend
select gapless.extend(
  %(group)s, %(topic)s, %(receipt)s, make_interval(secs => %(visibility_s)s)
)

-- name: queue_state
-- returns: gapless.features.queue.ops:QueuePartition
select %(group)s::text as "group", s.topic, s.partition_id as partition, s.next_offset, s.end_offset, s.open,
  s.in_hand, s.in_work, s.waiting, s.dead, s.lapsed, s.finished_ahead, s.oldest_open_s
from gapless.queue_state(%(group)s) s
order by s.topic, s.partition_id

-- name: peek
-- The oldest of each partition in these states; the view costs as much as the query asks for.
-- returns: gapless.features.queue.ops:QueueJob
select j.group_id as "group", j.topic, j.partition_id as partition, j.c_offset as offset, j.state, j.attempts,
  j.holder, j.since, j.key, j.event_type
from gapless.queue_state(%(group)s) s
cross join lateral (
  select v.* from gapless.queue_jobs v
  where v.group_id = %(group)s and v.topic = s.topic and v.partition_id = s.partition_id
    and v.state = any (%(states)s)
  order by v.c_offset
  limit %(limit)s
) j
where (%(topic)s::text is null or s.topic = %(topic)s)
  and (%(partition)s::int is null or s.partition_id = %(partition)s)
order by j.topic, j.partition_id, j.c_offset

-- name: report_queue_error
select gapless.report_queue_error(%(group_id)s, %(topics)s, %(error)s)
