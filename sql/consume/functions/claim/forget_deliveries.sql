-- Undo the begun calls of note_deliveries() that have not ended: it was not the fault of those calls.
create or replace function gapless.forget_deliveries(
  _group_id text, _topic_id int, _partition_id int, _epoch bigint, _token uuid
) returns void
language sql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
  update gapless.delivery d set crashes = d.crashes - 1
  where gapless.lock_fence(_group_id, _topic_id, _partition_id, _epoch, _token)
    and d.group_id = _group_id and d.topic_id = _topic_id
    and d.partition_id = _partition_id and d.crashes > 0 and d.first_offset >= (
      select c.next_offset from gapless.consumer_offsets c
      where c.ctid = gapless.offset_row(_group_id, _topic_id, _partition_id)
    )
$$;
