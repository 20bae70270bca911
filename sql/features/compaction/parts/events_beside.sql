-- The newest event of each key of a compacted topic (as log/parts/events_beside.sql). index: latest_id, latest_place
select l.topic_id, l.key_digest, l.partition_id, l.c_offset, l.timeline, l.id, l.xid, l.key, l.host_id, l.user_id,
  l.transaction_id, l.event_type, l.payload, l.headers, l.created_ts, l.cause, l.correlation
from gapless.latest l
