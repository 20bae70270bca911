-- Tell whether a queue group has delivered events of a topic before that are to be taken again: due means that
-- reserve() will find some; else wait_s is the seconds until the next are due. No row: none
-- is in hand or waits. index: dead_letter_open; queue_range_pkey from the floors on
create or replace function gapless.queue_aside(_group_id text, _topic_id int)
returns table (due boolean, wait_s double precision)
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
  select min(n.at_ts) <= clock_timestamp(),
    -- Each by itself: -infinity (deliver again now) minus a time is an error before PostgreSQL 17.
    greatest((extract(epoch from min(n.at_ts)) - extract(epoch from clock_timestamp()))::float8, 0)
  from gapless.lease l
  cross join lateral (
    select q.next_offset, q.block, q.is_paused from gapless.queue_floor q
    where q.lease_no = l.lease_no
    order by q.version desc limit 1
  ) f
  cross join lateral (
    (
      select d.next_attempt_ts as at_ts from gapless.dead_letter d
      where d.group_id = l.group_id and d.topic_id = l.topic_id and d.partition_id = l.partition_id
        and d.state = 'waiting'
      order by d.next_attempt_ts limit 1
    )
    union all
    select min(r.deadline) from gapless.queue_range r
    where r.lease_no = l.lease_no and r.first_offset >= f.next_offset and r.deadline is not null
  ) n
  where l.group_id = _group_id and l.topic_id = _topic_id and not f.is_paused and n.at_ts is not null
  having count(*) > 0
$$;
