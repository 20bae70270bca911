-- name: in_status
-- Compacted topics, with their progress.
-- returns: gapless.features.compaction.section:Compacting
select c.topic, c.is_on, c.lag, c.keys, c.keyless, c.missing, c.bytes, c.stands_s, c.starting
from gapless.compactions c
order by c.topic
