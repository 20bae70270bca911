-- Return the partitions of a queue group that have work, the partition with the largest backlog first: events above the
-- floor, or a unit set aside that is due. Paused and idle partitions are left out, so a look at a thousand idle
-- partitions costs no more than that. open: as in queue_places().
-- index: as queue_places(); dead_letter_open. MUST NOT call a function for each partition.
create or replace function gapless.queue_work(_group_id text, _topic_id int)
returns table (partition_id int, lease_no int, block int, open bigint, has_due boolean)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  now_ts timestamptz := clock_timestamp();    -- an index takes no volatile function
  has_letters boolean := exists (
    select from gapless.dead_letter d
    where d.group_id = _group_id and d.topic_id = _topic_id and d.state in ('waiting', 'parked', 'dead')
  );
begin
  return query
  select l.partition_id, l.lease_no, f.block,
    greatest(e.last_offset + 1 - greatest(f.next_offset, r.last_offset + 1), 0), d.has_due
  from gapless.lease l
  cross join lateral (
    select q.next_offset, q.block, q.is_paused from gapless.queue_floor q
    where q.lease_no = l.lease_no
    order by q.version desc limit 1
  ) f
  left join lateral (
    select s.last_offset from gapless.log_segment s
    where s.topic_id = l.topic_id and s.partition_id = l.partition_id
    order by s.base_offset desc limit 1
  ) e on true
  left join lateral (
    select q.last_offset from gapless.queue_range q
    where f.next_offset <> e.last_offset + 1 and q.lease_no = l.lease_no and q.first_offset >= f.next_offset
    order by q.first_offset desc limit 1
  ) r on true
  cross join lateral (
    select has_letters and exists (
      select from gapless.dead_letter d
      where d.group_id = l.group_id and d.topic_id = l.topic_id and d.partition_id = l.partition_id
        and d.state = 'waiting' and d.next_attempt_ts <= now_ts
    ) as has_due
  ) d
  where l.group_id = _group_id and l.topic_id = _topic_id and not f.is_paused
    and (f.next_offset <> coalesce(e.last_offset, 0) + 1 or d.has_due)
  order by 4 desc, 1;
end
$$;
