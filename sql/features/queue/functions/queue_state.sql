-- Show the state of a queue group, a row for each partition; it only reads.
--   next_offset  the floor: all events below are finished or set aside; end_offset: the offset of the next event
--   open         events that are free to take: new ones, and ones that were given back or whose time is over; they
--                include events that workers have in hand at this moment; in_work counts the blocks of those
--   in_hand      events that were delivered and whose time is not over; lapsed: delivered events whose time is over
--   finished_ahead  finished events above the floor
--   waiting, dead   units that were set aside
--   oldest_open_s   seconds since the event at the floor was published; 0: all events are finished
create or replace function gapless.queue_state(group_id text) returns table (
  topic text, partition_id int, next_offset bigint, end_offset bigint, open bigint, in_work bigint, in_hand bigint,
  lapsed bigint, finished_ahead bigint, waiting bigint, dead bigint, oldest_open_s double precision, is_paused boolean
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
begin
  perform gapless.require_queue(queue_state.group_id, g.topic_id)
  from (select distinct p.topic_id from gapless.group_partitions(queue_state.group_id) p) g;
  return query
  with working as materialized (    -- once: listing the locks costs as much as there are locks
    select k.objid, count(distinct k.pid) as blocks from pg_locks k
    where k.locktype = 'advisory' and k.classid = 7427003::oid and k.objsubid = 2
      and k.granted and k.mode = 'ShareLock' and k.pid <> pg_backend_pid()
      and k.database = (select b.oid from pg_database b where b.datname = current_database())
    group by 1
  )
  select t.name, l.partition_id, f.next_offset, coalesce(e.last_offset, 0) + 1,
    greatest(coalesce(e.last_offset, 0) + 1 - f.next_offset - coalesce(r.in_hand, 0) - coalesce(r.finished, 0), 0),
    coalesce(w.blocks, 0), coalesce(r.in_hand, 0), coalesce(r.lapsed, 0), coalesce(r.finished, 0),
    d.waiting, d.dead, coalesce(v.lag_s, 0), f.is_paused
  from gapless.lease l
  join gapless.topic t using (topic_id)
  cross join lateral (
    select q.next_offset, q.is_paused from gapless.queue_floor q
    where q.lease_no = l.lease_no
    order by q.version desc limit 1
  ) f
  left join gapless.lag v
    on v.group_id = l.group_id and v.topic_id = l.topic_id and v.partition_id = l.partition_id
  left join lateral (
    select s.last_offset from gapless.log_segment s
    where s.topic_id = l.topic_id and s.partition_id = l.partition_id
    order by s.base_offset desc limit 1
  ) e on true
  cross join lateral (
    select
      sum(q.last_offset - q.first_offset + 1) filter (where q.deadline > clock_timestamp())::bigint as in_hand,
      sum(q.last_offset - q.first_offset + 1) filter (where q.deadline <= clock_timestamp())::bigint as lapsed,
      sum(q.last_offset - q.first_offset + 1) filter (where q.deadline is null)::bigint as finished
    from gapless.queue_range q
    where q.lease_no = l.lease_no and q.first_offset >= f.next_offset
  ) r
  cross join lateral (
    select count(*) filter (where x.state in ('waiting', 'parked')) as waiting,
      count(*) filter (where x.state = 'dead') as dead
    from gapless.dead_letter x
    where x.group_id = l.group_id and x.topic_id = l.topic_id and x.partition_id = l.partition_id
      and x.state in ('waiting', 'parked', 'dead')
  ) d
  left join working w on w.objid = l.lease_no::oid
  where l.group_id = queue_state.group_id
  order by t.name, l.partition_id;
end
$$;
