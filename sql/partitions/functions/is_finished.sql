-- Tell whether the group has handled all events of this partition.
create or replace function gapless.is_finished(_group_id text, _topic_id int, _partition_id int) returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select coalesce(
    (
      select s.last_offset from gapless.log_segment s
      where s.topic_id = _topic_id and s.partition_id = _partition_id
      order by s.base_offset desc limit 1
    ), 0) < (
      select c.next_offset from gapless.consumer_offsets c
      where c.ctid = gapless.offset_row(_group_id, _topic_id, _partition_id)
    )
$$;
