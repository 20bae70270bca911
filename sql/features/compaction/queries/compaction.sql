-- name: in_status
-- Compacted topics, with their progress.
-- returns: gapless.features.compaction.section:Compacting
select c.topic, c.is_on, c.lag, c.keys, c.keyless, c.missing, c.bytes, c.stands_s, c.starting
from gapless.compactions c
order by c.topic

-- name: set_compaction
select gapless.set_compaction(%(topic)s, %(compact)s)

-- name: compact
select gapless.compact(%(events_max)s)

-- name: find_latest
-- returns: gapless.features.compaction.latest:LatestEvent
select l.event_key as key, l.event_type, l.payload, l.headers, l.host_id, l.user_id, l.transaction_id,
  l.partition_id as partition, l.c_offset as offset, l.created_ts as created
from gapless.latest(%(topic)s, %(key)s) l

-- name: compactions
-- returns: gapless.features.compaction.ops:CompactionInfo
select c.topic, c.is_on, c.lag, c.keys, c.keyless, c.missing, c.bytes, c.moved_ts as moved, c.stands_s, c.starting
from gapless.compactions c
order by c.topic
