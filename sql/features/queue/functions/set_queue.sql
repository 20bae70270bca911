-- Set a queue group's block and max_crashes; null leaves either as it is. A new block takes effect only when no worker
-- has a partition in hand at this moment, else the old one stays: two workers that cut the log differently would take
-- the same events (Q2).
create or replace function gapless.set_queue(_here gapless.consumer_group, _block int, _max_crashes int) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  part record;
  here gapless.queue_floor;
begin
  if _max_crashes <> _here.max_crashes then
    update gapless.consumer_group g set max_crashes = _max_crashes
    where g.group_id = _here.group_id and g.topic_id = _here.topic_id;
  end if;
  if _block is null or _block = _here.block then
    return;
  end if;
  for part in
    select l.lease_no from gapless.lease l
    where l.group_id = _here.group_id and l.topic_id = _here.topic_id
    order by l.lease_no
  loop
    if not pg_try_advisory_xact_lock(7427003, part.lease_no) then
      return;
    end if;
  end loop;
  -- A block is taken from its beginning on: another cut would pass open events between ranges.
  if gapless.has_gaps(_here.group_id, _here.topic_id) then
    return;
  end if;
  perform from gapless.consumer_offsets c
  where c.group_id = _here.group_id and c.topic_id = _here.topic_id
  order by c.partition_id
  for update;
  update gapless.consumer_group g set block = _block
  where g.group_id = _here.group_id and g.topic_id = _here.topic_id;
  for part in
    select l.lease_no from gapless.lease l
    where l.group_id = _here.group_id and l.topic_id = _here.topic_id
    order by l.lease_no
  loop
    here := gapless.floor_of(part.lease_no);
    insert into gapless.queue_floor (lease_no, version, next_offset, block, is_paused, place)
    values (part.lease_no, here.version + 1, here.next_offset, _block, here.is_paused, here.place);
  end loop;
end
$$;
