-- Every event of queue groups as a row of a status table, for users of such tables; nothing is stored for it.
--   ENQUEUED   open: no worker has it, or it waits for its next attempt
--   PROCESSING in hand until its deadline; or in a worker's open transaction, whose process is the holder
--   FAILED     dead, until a person redrives or discards it
--   PROCESSED  finished above the floor. Below the floor, every event without a row was PROCESSED or discarded.
-- Reads all events from the floor to the end of the log: ask for a group and a topic, and with a LIMIT.
create or replace view gapless.queue_jobs as
select g.group_id, t.name as topic, l.partition_id, j.c_offset,
  case
    when j.deadline > clock_timestamp() then 'PROCESSING'
    when j.deadline is not null then 'ENQUEUED'
    when j.first_offset is not null then case d.state
        when 'dead' then 'FAILED' when 'waiting' then 'ENQUEUED' when 'parked' then 'ENQUEUED' else 'PROCESSED'
      end
    when k.pid is not null then 'PROCESSING'
    else 'ENQUEUED'
  end as state,
  coalesce(d.attempts, j.tries, 0)::int as attempts,
  case
    when j.deadline > clock_timestamp() then j.holder
    when j.first_offset is null then k.pid::text
    else d.worker
  end as holder,
  coalesce(d.last_failed_ts, j.since_ts) as since,
  m.key, m.event_type, m.id as message_id, t.topic_id
from gapless.consumer_group g
join gapless.topic t using (topic_id)
join gapless.lease l using (group_id, topic_id)
cross join lateral gapless.floor_of(l.lease_no) f
join gapless.log_segment s
  on s.topic_id = l.topic_id and s.partition_id = l.partition_id and s.last_offset >= f.next_offset
cross join lateral unnest(s.message_ids) with ordinality as u (id, n)
cross join lateral (
  select s.base_offset + u.n - 1 as c_offset, r.*
  from (select) one
  left join lateral (
    select q.first_offset, q.last_offset, q.deadline, q.holder, q.since_ts, q.tries, q.token from gapless.queue_range q
    where q.lease_no = l.lease_no and q.first_offset between f.next_offset and s.base_offset + u.n - 1
    order by q.first_offset desc limit 1
  ) r on true
) a
cross join lateral (
  select a.c_offset,
    case when a.last_offset >= a.c_offset then a.first_offset end as first_offset,
    case when a.last_offset >= a.c_offset then a.deadline end as deadline,
    case when a.last_offset >= a.c_offset then a.holder end as holder,
    case when a.last_offset >= a.c_offset then a.since_ts end as since_ts,
    case when a.last_offset >= a.c_offset then a.tries end as tries
) j
left join gapless.outbox_message_t m on m.id = u.id
left join gapless.dead_letter d
  on d.group_id = l.group_id and d.topic_id = l.topic_id and d.partition_id = l.partition_id
  and d.first_offset = a.c_offset
left join lateral (
  select k.pid from pg_locks k
  where k.locktype = 'advisory' and k.classid = 7427006::oid and k.objsubid = 2 and k.granted
    and k.objid = gapless.block_key(l.lease_no, (a.c_offset - 1) / f.block)::oid
    and k.database = (select b.oid from pg_database b where b.datname = current_database())
  limit 1
) k on j.first_offset is null
where g.mode = 'queue' and a.c_offset >= f.next_offset
union all
select d.group_id, t.name, d.partition_id, d.first_offset,
  case d.state when 'dead' then 'FAILED' when 'discarded' then 'FAILED' else 'ENQUEUED' end,
  d.attempts, d.worker, d.last_failed_ts, e.key, e.event_type, e.message_id, d.topic_id
from gapless.dead_letter d
join gapless.topic t using (topic_id)
join gapless.consumer_group g using (group_id, topic_id)
join gapless.lease l using (group_id, topic_id, partition_id)
cross join lateral gapless.floor_of(l.lease_no) f
join gapless.dead_letter_event e
  on e.group_id = d.group_id and e.topic_id = d.topic_id and e.partition_id = d.partition_id
  and e.c_offset = d.first_offset
where g.mode = 'queue' and d.state <> 'redriven' and d.first_offset < f.next_offset;

comment on view gapless.queue_jobs is 'Events of queue groups with the state that a job table would show.';
