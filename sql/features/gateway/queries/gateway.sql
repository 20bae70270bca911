-- name: create_api_key
-- A key that another one makes ends with it, at the latest.
select gapless.create_api_key(
  %(key_id)s, %(name)s, %(digest)s, %(scopes)s::text[], %(requests_s)s::float8,
  least(
    make_interval(secs => %(expires_in_s)s::float8),
    (select k.expires_ts - now() from gapless.api_key k where k.key_id = %(maker)s::text)
  )
)

-- name: revoke_api_key
select gapless.revoke_api_key(%(key_id)s)

-- name: find_api_key
-- returns: gapless.features.gateway.keys:FoundKey
select k.key_id, k.name, k.digest, k.scopes, k.requests_s from gapless.find_api_key(%(key_id)s) k

-- name: api_keys
-- The newest first; before: the id of the last key of the page before.
-- returns: gapless.features.gateway.keys:KeyInfo
select k.key_id, k.name, k.scopes, k.requests_s, k.created_ts as created, k.created_by,
  k.expires_ts as expires, k.last_used_ts as last_used, k.revoked_ts as revoked
from gapless.api_key k
where %(before)s::text is null
  or (k.created_ts, k.key_id) < (select b.created_ts, b.key_id from gapless.api_key b where b.key_id = %(before)s::text)
order by k.created_ts desc, k.key_id desc
limit %(limit)s::int

-- name: say_who
-- The caller for which this transaction acts, in the audit.
select set_config('gapless.asked_by', %(who)s, true)
