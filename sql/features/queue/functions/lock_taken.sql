-- Lock the events that a receipt holds of a range, all of them or the event at c_offset, which becomes a range of its
-- own.
-- Returns the number of these events; 0: the receipt no longer holds them.
-- locks: the rows of queue_range until the transaction ends; waits for a session that takes them over at this moment
create or replace function gapless.lock_taken(
  _lease_no int, _first_offset bigint, _last_offset bigint, _token uuid, _c_offset bigint
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  each gapless.queue_range;
  events bigint := 0;
begin
  for each in
    select r.* from gapless.queue_range r
    where r.lease_no = _lease_no and r.first_offset between _first_offset and coalesce(_c_offset, _last_offset)
      and r.last_offset >= coalesce(_c_offset, 0) and r.token = _token
    order by r.first_offset
    for update
  loop
    events := events + case when _c_offset is null then each.last_offset - each.first_offset + 1 else 1 end;
    if each.first_offset < each.last_offset and _c_offset is not null then
      update gapless.queue_range r set first_offset = _c_offset, last_offset = _c_offset
      where r.lease_no = _lease_no and r.first_offset = each.first_offset;
      insert into gapless.queue_range
        (lease_no, first_offset, last_offset, tries, token, deadline, holder, since_ts)
      select _lease_no, p.low, p.high, each.tries, each.token, each.deadline, each.holder, each.since_ts
      from (values (each.first_offset, _c_offset - 1), (_c_offset + 1, each.last_offset)) as p (low, high)
      where p.low <= p.high;
    end if;
  end loop;
  return events;
end
$$;
