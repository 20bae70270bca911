-- name: replay_for
select gapless.replay_for(%(group)s, gapless.topic_id(%(topic)s), %(of)s)

-- name: create_replay
select gapless.create_replay(
  %(group)s, %(topic)s, %(partition)s, %(from_end)s, %(from_offset)s, %(from_time)s,
  %(to_offset)s, %(to_time)s
)

-- name: replay_ranges
-- The events that a replay would handle, partition by partition; stop_offset is exclusive.
-- returns: gapless.features.replay.plan:ReplayBounds
select
  c.partition_id,
  c.start_offset,
  c.stop_offset,
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
  r.group_id as name,
  r.topic,
  r.events,
  r.done,
  r.letters as dead_letters,
  r.is_running as running,
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
  r.events,
  r.done,
  r.letters as dead_units,
  (
    select coalesce(sum(d.events), 0)::bigint from gapless.dead_letter d
    where d.group_id = r.group_id
  ) as dead_events
from gapless.replays r
where r.group_id = %(group)s

-- name: take_part
select r.epoch, r.unclean
from gapless.take_replay(%(group)s, %(topic_id)s, %(partition_id)s, %(token)s) r
