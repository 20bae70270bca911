-- Mark the events of a receipt as handled; returns their number. holder: the caller, which decides when to commit;
-- null: a worker, whose COMMIT must be declared. Raises GL003 when the receipt is no longer valid (Q2).
create or replace function gapless.settle_receipt(_receipt text, _c_offset bigint, _holder text) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  held record;
  events bigint;
begin
  select r.* into held from gapless.read_receipt(_receipt) r;
  if held.kind = 'L' then
    update gapless.dead_letter d
    set state = 'redriven', next_attempt_ts = null, closed_ts = clock_timestamp(), crashes = 0,
      token = case when _holder is not null then d.token end
    where d.group_id = held.group_id and d.topic_id = held.topic_id and d.partition_id = held.partition_id
      and d.first_offset = held.first_offset and d.token = held.token and coalesce(d.state, '') = 'waiting'
    returning d.events into events;
  else
    events := gapless.lock_taken(held.lease_no, held.first_offset, held.last_offset, held.token, _c_offset);
    update gapless.queue_range r set token = null, deadline = null, holder = _holder
    where r.lease_no = held.lease_no and r.token = held.token
      and r.first_offset between coalesce(_c_offset, held.first_offset) and coalesce(_c_offset, held.last_offset);
  end if;
  if coalesce(events, 0) = 0 then
    perform gapless.refuse_receipt(_receipt);
  end if;
  if held.kind = 'L' then
    perform gapless.close_letter(held.group_id, held.topic_id, held.partition_id, held.first_offset);
  end if;
  return events;
end
$$;
