-- Return the partitions of a queue group in a topic, the partition with the largest backlog first: open counts events
-- above all ranges, which no worker has taken yet; unfinished counts events above the floor: 0 means that none is open,
-- in hand or finished ahead. lease_no and block are read again after take_next() returned 'moved'. Raises GL404 for an
-- unknown group, GL409 for an ordered one.
-- index: queue_range_pkey from the floor on (entries below it stay in the index while an old snapshot is held),
-- queue_floor_pkey and log_segment_pkey, a look-up in each for each partition
create or replace function gapless.queue_places(_group_id text, _topic_id int)
returns table (partition_id int, lease_no int, block int, open bigint, unfinished bigint)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
begin
  perform gapless.require_queue(_group_id, _topic_id);
  return query
  select l.partition_id, l.lease_no, f.block,
    greatest(e.last_offset + 1 - greatest(f.next_offset, r.last_offset + 1), 0),
    greatest(e.last_offset + 1 - f.next_offset, 0)
  from gapless.lease l
  cross join lateral (
    select q.next_offset, q.block, q.is_paused from gapless.queue_floor q
    where q.lease_no = l.lease_no
    order by q.version desc limit 1
  ) f
  left join lateral (
    select q.last_offset from gapless.queue_range q
    where q.lease_no = l.lease_no and q.first_offset >= f.next_offset
    order by q.first_offset desc limit 1
  ) r on true
  left join lateral (
    select s.last_offset from gapless.log_segment s
    where s.topic_id = l.topic_id and s.partition_id = l.partition_id
    order by s.base_offset desc limit 1
  ) e on true
  where l.group_id = _group_id and l.topic_id = _topic_id and f.block is not null
  order by 4 desc nulls last, l.partition_id;
end
$$;
