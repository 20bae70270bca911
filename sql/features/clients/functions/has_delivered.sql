-- Tell whether the client that owns a partition has units of it in hand that were delivered under this epoch.
create or replace function gapless.has_delivered(_group_id text, _topic_id int, _partition_id int, _epoch bigint)
returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
  select exists (
    select from gapless.delivery d
    where d.group_id = _group_id and d.topic_id = _topic_id and d.partition_id = _partition_id
      and d.epoch = _epoch and not d.finished and d.first_offset >= coalesce(    -- deleted rows are in the index
        (
          select c.next_offset from gapless.consumer_offsets c
          where c.ctid = gapless.offset_row(_group_id, _topic_id, _partition_id)
        ), 0)
  ) or exists (
    select from gapless.dead_letter w
    where w.group_id = _group_id and w.topic_id = _topic_id and w.partition_id = _partition_id
      and w.state = 'waiting' and w.epoch = _epoch
  )
$$;
