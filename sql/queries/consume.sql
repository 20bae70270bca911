-- name: claim
select outcome, first_offset, last_offset, claim_xid, base_offset, message_ids, unit_ends
from gapless.claim(
  %(group_id)s, %(topic_id)s, %(partition_id)s, %(epoch)s, %(token)s, %(batch_size)s
)

-- name: count_events
-- How many of these events there are; same shape as the query `fetch`.
-- index: primary key of a chunk
select count(*)
from gapless.outbox_message_t o
where o.id between %(low)s and %(high)s and o.id = any ((select %(ids)s::bigint[])::bigint[])

-- name: finish
select gapless.finish_batch(%(claim_xid)s)

-- name: check_constraints
select gapless.check_constraints()

-- name: dead_letter
select gapless.dead_letter(
  %(group_id)s, %(topic_id)s, %(partition_id)s, %(first_offset)s, %(message_ids)s,
  %(exception)s, %(sqlstate)s, %(attempts)s
)

-- name: record_attempt
select gapless.record_attempt(
  %(group_id)s, %(topic_id)s, %(partition_id)s, %(epoch)s, %(token)s
)

-- name: forget_attempt
select gapless.forget_attempt(
  %(group_id)s, %(topic_id)s, %(partition_id)s, %(epoch)s, %(token)s
)
