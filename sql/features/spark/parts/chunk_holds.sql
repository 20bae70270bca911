-- Chunks with events that are to be archived (as log/parts/chunk_holds.sql).
select distinct e.upto, 'topic ' || t.name || ' waits for pipeline ' || t.archive
  || ', which has never run: gapless pipeline run ' || t.archive
  || ', or gapless topics alter ' || t.name || ' --archive none',
  true
from gapless.chunk_end e
join gapless.topic t using (topic_id)
where t.archive is not null
  and 'pipeline.' || t.archive <> all (t.overrun)
  and not exists (
    select from gapless.consumer_group g
    where g.group_id = 'pipeline.' || t.archive and g.topic_id = t.topic_id
  )
