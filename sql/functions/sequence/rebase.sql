-- Prepare the next run of a log whose xids mean nothing, for it was restored into another cluster: returns
-- the state to continue from. Gives no offsets. The run then takes, beside what it always takes, what stands
-- in no segment although its id is at or below the floor.
--
-- Ids jump to one that no restored row and no publisher has: that is the floor. Whoever is in progress may
-- still hold an id below the jump: these are the stragglers. All others that have one are seen by the run.
-- MUST jump first: setval() takes our xid while it has the sequence, so that later ones get ids above it.
-- Before: the caller has guard_sequencing.
create or replace function gapless.rebase(_state gapless.sequencer)
returns gapless.sequencer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  select setval('gapless.outbox_message_id_seq', (s.last_value / c.chunk_events + 1) * c.chunk_events, false) - 1
    into _state.floor_id
  from gapless.outbox_message_id_seq s, gapless.log_config c;
  _state.stragglers := array(select pg_snapshot_xip(pg_current_snapshot())) || array(
    select x::text::xid8
    from generate_series(
      pg_snapshot_xmax(pg_current_snapshot())::text::bigint, pg_current_xact_id()::text::bigint - 1
    ) x
  );
  _state.snapshot := '1:1:';    -- has seen nothing
  _state.next_floor_id := _state.floor_id;
  _state.next_floor_xid := (pg_current_xact_id()::text::bigint + 1)::text;    -- not in this run
  delete from gapless.unrouted;    -- they are all found again, and counted
  _state.has_unrouted := false;
  perform gapless.stop_restored(_state.run);
  return _state;
end
$$;
