-- name: published
-- The events published to a topic, with or without an offset, in the order of insertion.
select o.payload::text, o.key, o.event_type, o.headers::text, o.host_id, o.user_id,
  o.transaction_id::text
from gapless.outbox_message_t o
where o.topic_id = gapless.topic_id(%(topic)s)
order by o.id
