-- Give each partition of a queue group that has no floor its floor, at its offset. Before: the topic is locked.
create or replace function gapless.enter_queue(_group_id text, _topic_id int, _block int) returns void
language sql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
  insert into gapless.queue_floor (lease_no, version, next_offset, block, is_paused)
  select l.lease_no, 1, c.next_offset, _block, gapless.is_paused(l.group_id, l.topic_id, l.partition_id)
  from gapless.lease l
  join gapless.consumer_offsets c using (group_id, topic_id, partition_id)
  where l.group_id = _group_id and l.topic_id = _topic_id and not exists (
    select from gapless.queue_floor f where f.lease_no = l.lease_no
  )
  on conflict do nothing
$$;
