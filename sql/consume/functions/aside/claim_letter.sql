-- Handle a unit that was set aside again: the worker that owns the partition does so between batches, under the same
-- fence, and the handler's writes commit with the unit's new state (I6).
--   record_try()    in a transaction of its own: so a unit that kills its worker is known (I8)
--   claim_letter()  locks the fence and the unit, and marks it as handled
--   …the handler…
--   finish_letter() then COMMIT; or ROLLBACK, and letter_failed() in a transaction of its own
-- plan: by the primary key. enable_seqscan is off, for a plan made while the tables were small may be
--   kept; coalesce() hides the state, or an index of all that waits may look as good.

-- Claim a unit that is due, in the caller's open transaction: from now on it counts as handled, which commits or rolls
-- back with the handler's writes (I6).
--   outcome 'claimed'  its events are in dead_letter_event; claim_xid goes back to finish_letter()
--   outcome 'gone'     it is not due (any more)
--   outcome 'fenced'   (epoch, token) is no longer the partition's owner: stop (I7)
-- attempts: calls that failed before; was_dead: a person asked for this one; timeline: of its key.
-- locks: the consumer_offsets row and the unit's until the transaction ends
create or replace function gapless.claim_letter(
  _group_id text, _topic_id int, _partition_id int, _epoch bigint, _token uuid, _first_offset bigint
) returns table (
  outcome text, claim_xid text, last_offset bigint, attempts int, was_dead boolean, parks boolean,
  timeline int
)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
begin
  if not gapless.lock_fence(_group_id, _topic_id, _partition_id, _epoch, _token) then
    return query select 'fenced', null, null::bigint, null::int, null::boolean, null::boolean,
      null::int;
    return;
  end if;
  -- Wait for a person who is changing it: a later unit must not overtake it, and record_try() waits as well. A
  -- statement of its own: as a join it may lock one after the other.
  perform from gapless.dead_letter w
  where w.group_id = _group_id and w.topic_id = _topic_id
    and w.partition_id = _partition_id and w.first_offset = _first_offset
    and coalesce(w.state, '') = 'waiting' and w.next_attempt_ts <= clock_timestamp()
  for update;
  if found then
    perform set_config('gapless.chain', 'open', true);    -- see tell_cause()
    return query
    update gapless.dead_letter d
    set state = 'redriven', next_attempt_ts = null, closed_ts = clock_timestamp(), crashes = 0
    where d.group_id = _group_id and d.topic_id = _topic_id
      and d.partition_id = _partition_id and d.first_offset = _first_offset
    returning 'claimed', pg_current_xact_id()::text, d.last_offset, d.attempts,
      d.died_ts is not null, d.parks, d.timeline;
  else
    return query select 'gone', null, null::bigint, null::int, null::boolean, null::boolean,
      null::int;
  end if;
end
$$;
