-- Close a unit that was handled after all; units that are parked behind it follow. A dead one stays as 'redriven'; a
-- waiting one leaves no row.
create or replace function gapless.close_letter(_group_id text, _topic_id int, _partition_id int, _first_offset bigint)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
begin
  perform gapless.release_keys(_group_id, _topic_id, _partition_id, _first_offset);
  with forgotten as (
    delete from gapless.dead_letter d
    where d.group_id = _group_id and d.topic_id = _topic_id and d.partition_id = _partition_id
      and d.first_offset = _first_offset and d.died_ts is null
    returning d.first_offset, d.last_offset
  )
  delete from gapless.dead_letter_event e
  using forgotten f
  where e.group_id = _group_id and e.topic_id = _topic_id and e.partition_id = _partition_id
    and e.c_offset between f.first_offset and f.last_offset and e.first_offset = f.first_offset;
end
$$;
