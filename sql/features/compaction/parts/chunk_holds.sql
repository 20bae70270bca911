-- Chunks with events that compaction has yet to take in (as log/parts/chunk_holds.sql).
select e.upto, 'compaction of topic ' || t.name || ' has yet to take in '
    || sum(e.next_offset - coalesce(c.next_offset, 1)) || ' events: gapless run does, or select gapless.compact()',
  true
from gapless.chunk_end e
join gapless.topic t using (topic_id)
left join gapless.compaction c using (topic_id, partition_id)
where t.compacted and coalesce(c.next_offset, 1) < e.next_offset
group by e.upto, t.topic_id
