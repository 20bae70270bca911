-- Replays that are not done, or were kept: events in their range, and the number of done ones (handled or dead);
-- letters counts units in their dead letter queue; is_running: a session is running it now.
create or replace view gapless.replays as
select
  g.group_id, t.name as topic, o.events, o.done,
  (select count(*) from gapless.dead_letter d where d.group_id = g.group_id) as letters,
  exists (
    select from gapless.lease l
    join pg_locks k on k.locktype = 'advisory' and k.classid = 7427003::oid
      and k.objid = l.lease_no::oid and k.objsubid = 2 and k.granted
      and k.database = (select d.oid from pg_database d where d.datname = current_database())
    where l.group_id = g.group_id
  ) as is_running,
  g.created_ts
from gapless.consumer_group g
join gapless.topic t using (topic_id)
cross join lateral (
  select sum(c.stop_offset - c.start_offset)::bigint as events,
    sum(least(c.next_offset, c.stop_offset) - c.start_offset)::bigint as done
  from gapless.consumer_offsets c
  where c.group_id = g.group_id and c.topic_id = g.topic_id
) o
where g.is_scratch;

comment on view gapless.replays is 'Replays that are not done, or were kept.';
