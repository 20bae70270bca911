-- Chunks with events that stopped subscriptions wait for (as log/parts/chunk_holds.sql).
select e.upto, 'subscription ' || s.name || ' of group ' || s.group_id || ' was stopped, and its events of ' || t.name
    || ' wait: gapless subscriptions resume ' || s.group_id || '/' || t.name || ' ' || s.name,
  true
from gapless.chunk_end e
join gapless.topic t using (topic_id)
join gapless.subscription s using (topic_id)
join gapless.subscription_stop p on p.subscription_id = s.subscription_id and p.partition_id = e.partition_id
where s.group_id <> all (t.overrun) and p.from_offset < e.next_offset
