-- name: pause
select gapless.pause(%(group)s, %(topic)s, %(partition)s, %(reason)s)

-- name: hold
-- A pause of this command: no other pause ends with it.
select gapless.pause(%(group)s, %(topic)s, %(partition)s, %(reason)s, %(holder)s)

-- name: resume
select gapless.resume(%(group)s, %(topic)s, %(partition)s, %(holder)s)

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

-- name: set_expiry
select gapless.set_expiry(%(group)s, make_interval(secs => %(after_s)s))

-- name: expiries
-- returns: gapless.features.expiry.ops:GroupExpiry
select e.group_id as "group", extract(epoch from e.expires_after)::float8 as expires_after_s,
  extract(epoch from e.idle)::float8 as idle_s, extract(epoch from e.time_left)::float8 as left_s,
  e.set_aside, e.set_by, e.set_ts as set_at
from gapless.expiries e
where %(group)s::text is null or e.group_id = %(group)s
order by e.group_id

-- name: replay_for
select gapless.replay_for(%(group)s, gapless.topic_id(%(topic)s), %(of)s)

-- name: busy
-- The number of workers that still have a batch to finish.
select count(*)
from gapless.seek_plan(%(group)s, %(topic)s, %(partition)s, to_end => 'latest') p
where p.worker

-- name: plan_seek
-- returns: gapless.ops.control:Move
select
  p.topic_name as topic, p.partition_no as partition, p.next_offset as current_offset, p.new_offset, p.again,
  p.skipped, p.letters as dead_letters, p.worker
from gapless.seek_plan(
  %(group)s, %(topic)s, %(partition)s, %(end)s, %(offset)s, %(time)s, %(transaction)s
) p

-- name: seek
-- returns: gapless.ops.control:Move
select
  p.topic_name as topic, p.partition_no as partition, p.next_offset as current_offset, p.new_offset, p.again,
  p.skipped, p.letters as dead_letters, p.worker
from gapless.seek(
  %(group)s, %(topic)s, %(partition)s, %(end)s, %(offset)s, %(time)s, %(transaction)s, %(holder)s
) p

-- name: skip_hole
-- returns: gapless.ops.control:Skipped
select
  %(group)s::text as "group",
  %(topic)s::text as topic,
  %(partition)s::int as partition,
  s.first_offset, s.last_offset, s.missing, s.passed
from gapless.skip_hole(%(group)s, %(topic)s, %(partition)s, %(offset)s) s

-- name: create_replay
select gapless.create_replay(
  %(group)s, %(topic)s, %(partition)s, %(from_end)s, %(from_offset)s, %(from_time)s,
  %(to_offset)s, %(to_time)s
)

-- name: replay_ranges
-- The events that a replay would handle, partition by partition; stop_offset is exclusive.
-- returns: gapless.features.replay.plan:ReplayBounds
select
  c.partition_id, c.start_offset, c.stop_offset,
  (
    select r.created_ts from gapless.read(t.name::text, c.partition_id, c.start_offset, c.start_offset) r
    where c.start_offset < c.stop_offset
  ) as first_event,
  (
    select r.created_ts from gapless.read(t.name::text, c.partition_id, c.stop_offset - 1, c.stop_offset - 1) r
    where c.start_offset < c.stop_offset
  ) as last_event
from gapless.consumer_offsets c
join gapless.topic t using (topic_id)
where c.group_id = %(group)s
order by c.partition_id

-- name: apply_constraints
select gapless.apply_constraints()

-- name: current_xid
select pg_current_xact_id_if_assigned()::text

-- name: create_trial
select gapless.create_trial(
  %(group)s, %(topic)s, %(partitions)s::int[], %(starts)s::bigint[], %(stops)s::bigint[]
)

-- name: replays
-- returns: gapless.features.replay.plan:ReplayInfo
select
  r.group_id as name, r.topic, r.events, r.done, r.letters as dead_letters, r.is_running as running,
  r.created_ts as created
from gapless.replays r
order by r.created_ts, r.group_id

-- name: replay_parts
-- The partitions of a replay that have events left.
-- returns: gapless.features.replay.run:ReplayPart
select t.name as topic, c.topic_id, c.partition_id, l.lease_no, c.next_offset, c.stop_offset
from gapless.consumer_offsets c
join gapless.topic t using (topic_id)
join gapless.lease l using (group_id, topic_id, partition_id)
where c.group_id = %(group)s and c.next_offset < c.stop_offset
order by c.partition_id

-- name: replay_state
-- Over all its partitions: events in range, done, units and events among the dead letters.
-- returns: gapless.features.replay.run:ReplayProgress
select
  r.events, r.done, r.letters as dead_units,
  (
    select coalesce(sum(d.events), 0)::bigint from gapless.dead_letter d
    where d.group_id = r.group_id
  ) as dead_events
from gapless.replays r
where r.group_id = %(group)s

-- name: take_part
select r.epoch, r.unclean
from gapless.take_replay(%(group)s, %(topic_id)s, %(partition_id)s, %(token)s) r

-- name: drop_group
select gapless.drop_group(%(group)s)
