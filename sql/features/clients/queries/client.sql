-- name: join
-- returns: gapless.features.clients.ops:JoinedClient
select j.member_id, j.token, j.expires_at
from gapless.join(
  %(group)s, %(topic)s, make_interval(secs => %(ttl_s)s), %(name)s
) j

-- name: poll
-- returns: gapless.features.clients.ops:PolledEvent
select p.partition_id as partition, p.c_offset as offset, p.first_offset, p.last_offset, p.attempt, p.redriven,
  p.key, p.event_type, p.payload, p.headers, p.host_id, p.user_id, p.transaction_id, p.created_ts as created
from gapless.poll(
  gapless.token_in(%(token)s, %(group)s, %(member_id)s), %(max_events)s, %(partitions)s::int[]
) p

-- name: commit
select gapless.commit(
  gapless.token_in(%(token)s, %(group)s, %(member_id)s), %(partition)s, %(next_offset)s::bigint
)

-- name: commit_redriven
select gapless.commit_redriven(
  gapless.token_in(%(token)s, %(group)s, %(member_id)s), %(partition)s, %(first_offset)s::bigint
)

-- name: reject
select gapless.reject_unit(
  gapless.token_in(%(token)s, %(group)s, %(member_id)s), %(partition)s, %(first_offset)s::bigint, %(reason)s
)

-- name: heartbeat
-- returns: gapless.features.clients.ops:ClientStanding
select h.expires_at, h.partitions, h.problem, h.topic
from gapless.heartbeat(gapless.token_in(%(token)s, %(group)s, %(member_id)s)) h

-- name: leave
select gapless.leave(gapless.token_in(%(token)s, %(group)s, %(member_id)s))
