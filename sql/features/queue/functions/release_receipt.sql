-- Give back the events of a receipt: any worker may take them at once, and this does not count as an attempt. Returns
-- the number of events.
create or replace function gapless.release_receipt(_receipt text, _c_offset bigint default null) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  held record;
  events bigint;
begin
  select r.* into held from gapless.read_receipt(_receipt) r;
  if held.kind = 'L' then
    update gapless.dead_letter d
    set token = null, next_attempt_ts = clock_timestamp(), crashes = greatest(d.crashes - 1, 0)
    where d.group_id = held.group_id and d.topic_id = held.topic_id and d.partition_id = held.partition_id
      and d.first_offset = held.first_offset and d.token = held.token and coalesce(d.state, '') = 'waiting'
    returning d.events into events;
  else
    events := gapless.lock_taken(held.lease_no, held.first_offset, held.last_offset, held.token, _c_offset);
    update gapless.queue_range r set token = null, deadline = '-infinity', tries = greatest(r.tries - 1, 0)
    where r.lease_no = held.lease_no and r.token = held.token
      and r.first_offset between coalesce(_c_offset, held.first_offset) and coalesce(_c_offset, held.last_offset);
  end if;
  if coalesce(events, 0) = 0 then
    perform gapless.refuse_receipt(_receipt);
  end if;
  perform pg_notify('gapless_p_' || held.topic_id || '_' || held.partition_id, 'letter');
  return events;
end
$$;
