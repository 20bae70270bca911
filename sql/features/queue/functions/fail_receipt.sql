-- Report that the events of a receipt failed: each is set aside as a unit of its own, to be handled again after
-- retry_after (state 'waiting'), or by a person ('dead'). Returns the number of events. c_offset: only that event.
-- counted: false when its handler was not called. Call it in a transaction of its own. Raises GL003 when the receipt is
-- no longer valid.
create or replace function gapless.fail_receipt(
  _receipt text, _c_offset bigint, _state text, _reason text, _exception text,
  _exception_class text default null, _sqlstate text default null, _retry_after interval default null,
  _worker text default null, _duration_ms double precision default null, _counted boolean default true
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  held record;
  events bigint;
  now_ts timestamptz := clock_timestamp();
begin
  select r.* into held from gapless.read_receipt(_receipt) r;
  if held.kind = 'L' then
    update gapless.dead_letter d
    set state = _state, attempts = d.attempts + _counted::int, crashes = 0, token = null,
      next_attempt_ts = case when _state = 'waiting' then now_ts + coalesce(_retry_after, '0 s') end,
      reason = _reason, exception = _exception, exception_class = _exception_class, sqlstate = _sqlstate,
      worker = _worker, duration_ms = _duration_ms,
      first_failed_ts = case when d.attempts = 0 then now_ts else d.first_failed_ts end,
      last_failed_ts = now_ts, died_ts = case when _state = 'dead' then now_ts else d.died_ts end
    where d.group_id = held.group_id and d.topic_id = held.topic_id and d.partition_id = held.partition_id
      and d.first_offset = held.first_offset and d.token = held.token and coalesce(d.state, '') = 'waiting'
    returning d.events into events;
  else
    events := gapless.lock_taken(held.lease_no, held.first_offset, held.last_offset, held.token, _c_offset);
    perform gapless.aside_events(
      held.group_id, held.topic_id, held.partition_id, r.first_offset, r.last_offset, _state, _reason, _exception,
      _exception_class, _sqlstate, _counted::int, _retry_after, _worker, _duration_ms
    )
    from gapless.queue_range r
    where r.lease_no = held.lease_no and r.token = held.token
      and r.first_offset between coalesce(_c_offset, held.first_offset) and coalesce(_c_offset, held.last_offset);
    update gapless.queue_range r set token = null, deadline = null, holder = coalesce(r.holder, '')
    where r.lease_no = held.lease_no and r.token = held.token
      and r.first_offset between coalesce(_c_offset, held.first_offset) and coalesce(_c_offset, held.last_offset);
  end if;
  if coalesce(events, 0) = 0 then
    perform gapless.refuse_receipt(_receipt);
  end if;
  return events;
end
$$;
