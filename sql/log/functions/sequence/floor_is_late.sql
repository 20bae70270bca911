-- Tell whether retention waits for a run that finds no events: there is a complete chunk that the floor has not passed,
-- or an event in the default chunk.
-- All transactions that might have ids up to `allocated` have ended when none is running that began before the run
-- which looked; the run itself decides that anew, in its own snapshot.
-- Chunks of the configured size begin at its multiples, which needs no look at them; others are looked at when the log
-- has been quiet for a second.
create or replace function gapless.floor_is_late(_state gapless.sequencer, _allocated bigint) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  chunk_events bigint;
begin
  if _allocated <= _state.floor_id
    or pg_snapshot_xmin(pg_current_snapshot()) < _state.next_floor_xid
  then
    return false;
  end if;
  if exists (select from gapless.outbox_message_default) then
    return true;
  end if;
  select c.chunk_events into chunk_events from gapless.log_config c;
  if (_state.floor_id + 1) / chunk_events = (_allocated + 1) / chunk_events
    and clock_timestamp() >= _state.ran_ts    -- else the clock was put back
    and clock_timestamp() < _state.ran_ts + interval '1 second'
  then
    return false;
  end if;
  return exists (
    select from gapless.chunk c
    where c.upto > _state.floor_id + 1 and c.upto <= _allocated + 1
  );
end
$$;
