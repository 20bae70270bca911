-- name: capture
select gapless.capture(%(table)s, %(topic)s, %(key)s, %(columns)s::text[], %(old)s)

-- name: release
select gapless.release_capture(%(table)s)

-- name: mend
select gapless.mend_capture(%(table)s)

-- name: list
-- returns: gapless.features.capture.ops:CaptureInfo
select c.table_name as table, c.topic, c.key, c.columns, c.old, c.captured_by, c.created_ts, c.problem, c.remedy
from gapless.captures c
order by 1

-- name: in_status
-- Captured tables with changes that are not published, or not in order.
-- returns: gapless.features.capture.section:FaultyCapture
select c.table_name as table, c.problem, c.remedy
from gapless.captures c
where c.problem is not null
order by 1
