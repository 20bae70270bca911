-- The newest event of each key as the start of a group (as partitions/parts/group_starts.sql). From the beginning of a
-- unit on, the log: a unit that was taken in halfway comes from there, all of it (I5).
select 'latest-per-key', c.topic_id, c.partition_id, (
    select min(l.c_offset) from gapless.latest l
    where l.topic_id = c.topic_id and l.partition_id = c.partition_id and l.c_offset < w.upto
  ), w.upto
from gapless.compaction c
cross join lateral gapless.unit_start(c.topic_id, c.partition_id, c.next_offset) as w (upto)
