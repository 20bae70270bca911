-- extend() for programs. Returns the new deadline. Raises GL003 when the receipt is no longer valid.
create or replace function gapless.extend_receipt(_receipt text, _visibility interval, _c_offset bigint default null)
returns timestamptz
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  until_ts timestamptz := clock_timestamp()
    + make_interval(secs => gapless.require_interval('visibility', _visibility, false));
  held record;
begin
  select r.* into held from gapless.read_receipt(_receipt) r;
  if held.kind = 'L' then
    update gapless.dead_letter d set next_attempt_ts = until_ts
    where d.group_id = held.group_id and d.topic_id = held.topic_id and d.partition_id = held.partition_id
      and d.first_offset = held.first_offset and d.token = held.token and coalesce(d.state, '') = 'waiting';
  else
    perform gapless.lock_taken(held.lease_no, held.first_offset, held.last_offset, held.token, _c_offset);
    update gapless.queue_range r set deadline = until_ts, since_ts = clock_timestamp()
    where r.lease_no = held.lease_no and r.token = held.token
      and r.first_offset between coalesce(_c_offset, held.first_offset) and coalesce(_c_offset, held.last_offset);
  end if;
  if not found then
    perform gapless.refuse_receipt(_receipt);
  end if;
  return until_ts;
end
$$;
