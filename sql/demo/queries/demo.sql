-- name: progress
-- The progress: events with an offset, and the lag of each group, summed over the partitions.
select
  coalesce(sum(e.last_offset) filter (where c.group_id = 'positions'), 0)::bigint as published,
  coalesce(sum(greatest(e.last_offset - c.next_offset + 1, 0)), 0)::bigint as lag
from gapless.consumer_offsets c
join gapless.topic t using (topic_id)
cross join lateral (
  select coalesce(
    (
      select s.last_offset from gapless.log_segment s
      where s.topic_id = c.topic_id and s.partition_id = c.partition_id
      order by s.base_offset desc limit 1
    ), 0) as last_offset
) e
where t.name = 'flights'

-- name: owned
-- The number of partitions of all groups that have an owner, and of all.
select count(l.owner), count(*)
from gapless.lease l
join gapless.topic t using (topic_id)
where t.name = 'flights'


-- name: dead_letters
-- Refused events and the reasons, without the parts that belong to a single flight.
select d.group_id,
  regexp_replace(
    regexp_replace(d.reason, E'^\\S+Error: [^:]*: ', ''),
    E'at \\d\\S*', 'at a time'
  ) as reason,
  count(distinct d.transaction_id), count(*)
from gapless.dead_letter_queue d
join gapless.topic t using (topic_id)
where t.name = 'flights'
group by 1, 2
order by 4 desc, 2

-- name: newest_letter
-- The place of the newest dead letter: its first event.
select d.group_id, t.name, d.partition_id, d.first_offset
from gapless.dead_letter_queue d
join gapless.topic t using (topic_id)
where t.name = 'flights' and d.status = 'dead'
order by d.created_ts desc
limit 1

-- name: end_sessions
-- End all sessions of a database but this one.
select pg_terminate_backend(a.pid)
from pg_stat_activity a
where a.datname = %(database)s and a.pid <> pg_backend_pid()
