-- Move a queue group to the place of a seek: all events from there on are open, and no receipt is valid any more.
-- Before: the partition's lock is held exclusively, and its consumer_offsets row is locked. Does nothing for ordered
-- groups.
create or replace function gapless.move_floor(_group_id text, _topic_id int, _partition_id int, _next_offset bigint)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  part record;
begin
  select l.lease_no, f.version, f.block, f.is_paused, f.place into part
  from gapless.lease l
  cross join lateral gapless.floor_of(l.lease_no) f
  where l.group_id = _group_id and l.topic_id = _topic_id and l.partition_id = _partition_id
    and f.version is not null;
  if not found then
    return;
  end if;
  delete from gapless.queue_range r where r.lease_no = part.lease_no;
  insert into gapless.queue_floor (lease_no, version, next_offset, block, is_paused, place)
  values (
    part.lease_no, part.version + 1, _next_offset, part.block,
    gapless.is_paused(_group_id, _topic_id, _partition_id), part.place
  );
  delete from gapless.queue_floor f where f.lease_no = part.lease_no and f.version <= part.version;
end
$$;
