-- name: in_status
-- Groups that expire soon, because they are not used.
-- returns: gapless.features.expiry.section:Expiring
select e.group_id, extract(epoch from e.idle)::float8 as idle_s,
  extract(epoch from e.time_left)::float8 as left_s, e.set_aside
from gapless.expiries e
where e.is_near
order by e.time_left, e.group_id

-- name: expire_groups
-- returns: gapless.features.expiry.stored:Expired
select e.group_id, e.set_aside from gapless.expire_groups(%(gap_s)s) e

-- name: expire_subscriptions
-- returns: gapless.features.expiry.stored:ExpiredSubscriptions
select e.group_id, e.topic, e.subscriptions from gapless.expire_subscriptions(%(gap_s)s) e

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
