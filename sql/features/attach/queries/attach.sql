-- name: plan
-- returns: gapless.features.attach.ops:AttachPlan
select p.table_name as table, p.topic, p.id_column as id, p.columns, p.places, p.partitions, p.rows, p.first_id,
  p.last_id, p.missing_ids
from gapless.attach_plan(
  %(table)s, %(topic)s, %(id)s, %(map)s::jsonb, %(places)s::jsonb, %(despite_changes)s::boolean
) p

-- name: attach
select gapless.attach(
  %(table)s, %(topic)s, %(id)s, %(map)s::jsonb, %(places)s::jsonb, %(despite_changes)s::boolean
)

-- name: number
select gapless.attachment_of(gapless.table_of(%(table)s))

-- name: bound
select b.bound, b.writers from gapless.attach_bound(%(number)s) b

-- name: still_writing
select coalesce(array_agg(distinct l.pid) filter (where l.virtualtransaction = any (%(writers)s::text[])), '{}')
from pg_locks l where l.locktype = 'relation'

-- name: copy
select gapless.copy_attached(%(number)s, %(bound)s, %(rows)s)

-- name: go_live
select gapless.go_live(%(number)s, %(rows)s)

-- name: copy_missed
select gapless.copy_missed(%(number)s)

-- name: old_places
select gapless.old_places(%(number)s, %(group)s, %(place)s)

-- name: succeed_consumer
select gapless.succeed_consumer(%(number)s, %(group)s, %(places)s::bigint[], %(switches)s)

-- name: group_state
select (
  select g.state from gapless.attached_group g where g.attachment_id = %(number)s and g.group_id = %(group)s
)

-- name: rest
select gapless.pause(
  %(group)s, t.name, null, 'it is handed back to its old consumer: gapless attach back', gapless.attach_holder()
)
from gapless.attached a join gapless.topic t using (topic_id)
join gapless.attached_group g using (attachment_id)
where a.attachment_id = %(number)s and g.group_id = %(group)s and g.state = 'switched'

-- name: go_on
select gapless.resume(%(group)s, t.name, null, gapless.attach_holder())
from gapless.attached a join gapless.topic t using (topic_id)
where a.attachment_id = %(number)s

-- name: lock
select gapless.lock_attached(%(number)s)

-- name: hand_back
select gapless.hand_back(%(number)s, %(group)s)

-- name: detach
select gapless.detach(%(table)s)

-- name: list
-- returns: gapless.features.attach.ops:AttachmentInfo
select a.table_name as table, a.topic, a.id_column as id, a.map as columns, a.places, a.copied_to, a.live_ts, a.groups,
  a.attached_by, a.created_ts, a.problem, a.remedy
from gapless.attachments a
order by 1

-- name: in_status
-- Attached tables with unpublished or changed rows, or whose copy is not complete.
-- returns: gapless.features.attach.section:FaultyAttachment
select a.table_name as table, a.problem, a.remedy
from gapless.attachments a
where a.problem is not null
order by 1
