-- Return the place of the newest version of a group's row: by its last known place (hint), else the newest in the
-- index. MUST look from the index's end backwards, and by a range, because the planner would drop the order otherwise:
-- versions since a held snapshot stay in the index, in the order of their pages, and the newest is nearly always on the
-- last.
create or replace function gapless.offset_row(_group_id text, _topic_id int, _partition_id int, _hint tid default null)
returns tid
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
  select coalesce(
    (
      select o.ctid from gapless.consumer_offsets o
      where o.ctid = _hint and o.group_id = _group_id and o.topic_id = _topic_id and o.partition_id = _partition_id
    ),
    (
      select o.ctid from gapless.consumer_offsets o
      where o.group_id = _group_id and o.topic_id = _topic_id
        and o.partition_id between _partition_id and _partition_id
      order by o.partition_id desc limit 1
    ))
$$;
