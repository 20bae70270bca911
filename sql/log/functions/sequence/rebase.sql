-- Prepare the next run of a log whose xids mean nothing, because it was restored into another cluster; returns the
-- state to continue from. Gives no offsets. In addition to its usual events, the run then takes events that are in no
-- segment although their ids are at or below the floor.
--
-- Ids jump to one that no restored row and no publisher has: that is the floor. Transactions in progress may still hold
-- an id below the jump: these are the stragglers. The run sees all other events below it.
--
-- All restored rows have lower ids than those that were published here since: restored_upto. pg_upgrade keeps xids, so
-- all of them keep their meaning there.
--
-- MUST jump first: setval() takes this transaction's xid while it has the sequence, so that later ones get ids above
-- it.
-- Before: the caller has guard_sequencing.
create or replace function gapless.rebase(_state gapless.sequencer) returns gapless.sequencer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  here bigint;
begin
  select setval('gapless.outbox_message_id_seq', (s.last_value / c.chunk_events + 1) * c.chunk_events, false) - 1
    into _state.floor_id
  from gapless.outbox_message_id_seq s, gapless.log_config c;
  here := pg_current_xact_id()::text::bigint;
  if not exists (select from gapless.sequencer s where s.next_floor_xid::xid = s.xmin) then
    select coalesce(max(o.id), 0) into _state.restored_upto
    from (
      select m.id from gapless.outbox_message_t m
      where not gapless.is_own_xid(
        m.xid, m.xmin, (select s.xmin from gapless.sequencer s where s.run = _state.run)
      )
      order by m.id desc limit 1
    ) o;
  end if;
  _state.stragglers := array(select pg_snapshot_xip(pg_current_snapshot())) || array(
    select x::text::xid8
    from generate_series(
      pg_snapshot_xmax(pg_current_snapshot())::text::bigint, here - 1
    ) x
  );
  _state.snapshot := '1:1:';    -- has seen nothing
  _state.next_floor_id := _state.floor_id;
  _state.next_floor_xid := (here + 1)::text;    -- not in this run
  delete from gapless.unrouted;    -- they are all found again, and counted
  _state.has_unrouted := false;
  perform gapless.stop_restored(_state.run);
  return _state;
end
$$;
