-- Lock the row that every batch locks, for the owner of the partition, and return its place; null when (epoch, token)
-- is no longer the owner (I7). By the newest version, as offset_row(): it waits for sessions that have just updated the
-- row.
create or replace function gapless.lock_offset(
  _group_id text, _topic_id int, _partition_id int, _epoch bigint, _token uuid
) returns tid
language sql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
  select c.ctid from gapless.consumer_offsets c
  where c.group_id = _group_id and c.topic_id = _topic_id
    and c.partition_id between _partition_id and _partition_id
    and c.epoch = _epoch and c.token = _token
  order by c.partition_id desc limit 1
  for update
$$;
