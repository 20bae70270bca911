-- Return the first offset, from `from` on (null: from the floor), that no range covers and whose block no session has
-- in hand; the caller has that block's lock from now on, and looks again. Null: there is none up to the end of the log.
-- Never locks a block without an event: sessions that could take the next events would wait for the caller.
-- index: queue_range_pkey. MUST begin at the floor, and again behind a range that many were made one of: the rows
--   that were there are in the index as long as an old snapshot is held.
create or replace function gapless.queue_gap(_topic_id int, _partition_id int, _lease_no int, _block int, _from bigint)
returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  here record;
  each record;
  pos bigint;
  beyond boolean;
begin
  select f.next_offset, (
      select s.last_offset from gapless.log_segment s
      where s.topic_id = _topic_id and s.partition_id = _partition_id
      order by s.base_offset desc limit 1
    ) as log_last
  into here
  from gapless.queue_floor f
  where f.lease_no = _lease_no
  order by f.version desc limit 1;
  pos := greatest(here.next_offset, _from);
  select greatest(pos, r.last_offset + 1) into pos from gapless.queue_range r
  where r.lease_no = _lease_no and r.first_offset between here.next_offset and pos
  order by r.first_offset desc limit 1;
  pos := coalesce(pos, here.next_offset, 1);
  pos := greatest(pos, _from);
  loop
    beyond := true;
    for each in
      select r.first_offset, r.last_offset from gapless.queue_range r
      where r.lease_no = _lease_no and r.first_offset >= pos
      order by r.first_offset
    loop
      while pos < each.first_offset and pos <= here.log_last loop
        if pg_try_advisory_xact_lock(7427006, gapless.block_key(_lease_no, (pos - 1) / _block)) then
          return pos;
        end if;
        pos := ((pos - 1) / _block + 1) * _block + 1;
      end loop;
      pos := greatest(pos, each.last_offset + 1);
      beyond := each.last_offset - each.first_offset < 2 * _block;
      exit when not beyond;
    end loop;
    exit when beyond;
  end loop;
  while pos <= here.log_last loop
    if pg_try_advisory_xact_lock(7427006, gapless.block_key(_lease_no, (pos - 1) / _block)) then
      return pos;
    end if;
    pos := ((pos - 1) / _block + 1) * _block + 1;
  end loop;
  return null;
end
$$;
