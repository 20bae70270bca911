-- Turn the slots of dedupe keys, one step a call; returns whether there was something to do. Each step is a transaction
-- of its own, may be taken by any session at any time, and continues where another stopped.
--
-- New keys go to one slot. When that has taken keys for half of the longest window among its topics, an empty slot
-- takes its place; the one before is looked at until all its keys are too old, and is emptied then. Without an empty
-- slot, or without calls, nothing is wrong: the slot continues.
--
-- Keys are unique in a slot only, so a change of slots MUST NOT let two publishers with one key miss each other, one
-- that knows of the change and one that does not. So it has two steps. First keys go to both slots: the two meet in the
-- old one. Once no publisher is left that does not know (every transaction that was in progress is over; a publisher
-- has its xid before it looks), keys go to the new slot alone: such a publisher meets in it those that write to both,
-- and sees earlier keys, as rows, in the old one. A long transaction of any session delays the second step, and nothing
-- else.
--
-- Raises 55P03 when a publisher still has the slot locked that is to be emptied: try again later.
-- locks: dedupe_state; ACCESS EXCLUSIVE on a slot that no session reads any more
create or replace function gapless.turn_dedupe_slots() returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
set jit = off    -- it took 200 ms to compile a query of 10 ms
set lock_timeout = '100ms' as $$
declare
  due record;
begin
  perform gapless.require_read_committed('turn_dedupe_slots');
  perform gapless.look_at_clock();
  -- A time from a clock that was ahead counts from now on.
  update gapless.dedupe_state s set since_ts = clock_timestamp() where s.since_ts > clock_timestamp();
  update gapless.dedupe_slot d set closed_ts = clock_timestamp() where d.closed_ts > clock_timestamp();
  -- Look first, then lock.
  if not exists (select from gapless.dedupe_due()) then
    return false;
  end if;
  perform from gapless.dedupe_state s for no key update;
  -- MUST be looked at again: the session that held the row has committed.
  select * into due from gapless.dedupe_due() limit 1;
  case due.step
    when 'turn' then
      update gapless.dedupe_state s
      set slot = due.slot, closing = s.slot, closes_at = null, since_ts = clock_timestamp();
    when 'watch' then
      -- MUST be a transaction after the one above: now all publishers that do not know of it have their xids.
      update gapless.dedupe_state s set closes_at = pg_snapshot_xmax(pg_current_snapshot());
    when 'close' then
      update gapless.dedupe_slot d set closed_ts = clock_timestamp() where d.slot = due.slot;
      update gapless.dedupe_state s
      set closing = null, closes_at = null, closed = s.closed || due.slot;
    when 'leave' then
      -- First no session looks at it any more, so that its locks come to an end.
      update gapless.dedupe_state s set closed = array_remove(s.closed, due.slot);
    when 'empty' then
      execute format('truncate gapless.%I', 'dedupe_' || due.slot);
      update gapless.dedupe_slot d set closed_ts = null where d.slot = due.slot;
    else
      return false;
  end case;
  return true;
end
$$;
