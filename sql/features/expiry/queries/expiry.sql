-- name: in_status
-- Groups that expire soon, because they are not used.
-- returns: gapless.features.expiry.section:Expiring
select e.group_id, extract(epoch from e.idle)::float8 as idle_s,
  extract(epoch from e.time_left)::float8 as left_s, e.set_aside
from gapless.expiries e
where e.is_near
order by e.time_left, e.group_id
