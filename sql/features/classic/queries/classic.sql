-- name: show
select gapless.show_classic(%(group)s, %(topic)s, %(view)s)

-- name: hide
select gapless.hide_classic(%(group)s, %(topic)s)

-- name: notify
select gapless.notify_classic(%(topic)s, %(channel)s)

-- name: silence
select gapless.silence_classic(%(topic)s)

-- name: list
-- returns: gapless.features.classic.ops:ClassicInfo
select c.kind, c.group_id as "group", c.topic, c.name, c.asked_by, c.created_ts, c.problem, c.remedy
from gapless.classics c
order by 1, 2, 3

-- name: in_status
-- Classic names that show or announce nothing, though they should.
-- returns: gapless.features.classic.section:FaultyClassic
select distinct c.name, c.problem, c.remedy
from gapless.classics c
where c.problem is not null
order by 1, 3
