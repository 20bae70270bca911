-- name: pause
select gapless.pause(%(group)s, %(topic)s, %(partition)s, %(reason)s)

-- name: hold
-- A pause of this command: no other pause ends with it.
select gapless.pause(%(group)s, %(topic)s, %(partition)s, %(reason)s, %(holder)s)

-- name: resume
select gapless.resume(%(group)s, %(topic)s, %(partition)s, %(holder)s)

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

-- name: drop_group
select gapless.drop_group(%(group)s)
