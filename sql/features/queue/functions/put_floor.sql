-- Raise the floor of a queue group's partition, with its consumer_offsets row locked, and forget the rows below it.
create or replace function gapless.put_floor(
  _lease_no int, _group_id text, _topic_id int, _partition_id int, _place tid,
  _here gapless.queue_floor, _next_offset bigint
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  moved tid;
begin
  delete from gapless.queue_range r
  where r.lease_no = _lease_no and r.first_offset between _here.next_offset and _next_offset - 1;
  update gapless.consumer_offsets c
  set next_offset = _next_offset
  where c.ctid = _place and c.group_id = _group_id and c.topic_id = _topic_id and c.partition_id = _partition_id
  returning c.ctid into strict moved;
  insert into gapless.queue_floor (lease_no, version, next_offset, block, is_paused, place)
  values (_lease_no, _here.version + 1, _next_offset, _here.block, _here.is_paused, moved);
  delete from gapless.queue_floor f
  where f.lease_no = _lease_no and f.version between _here.version - 1 and _here.version;
end
$$;
