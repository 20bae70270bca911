-- Tell whether there is a committed event without an offset; it writes nothing. Stable: it sees the snapshot of its
-- statement, so that "nothing is pending, and no group lags" can be asked in one.
create or replace function gapless.pending() returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
  state gapless.sequencer;
begin
  select * into strict state from gapless.sequencer s order by s.run desc limit 1;
  return exists (
      select from gapless.unrouted u join gapless.topic t using (topic_id)
      where state.has_unrouted
    ) or exists (
      select from gapless.outbox_message_t o
      where o.xid >= pg_snapshot_xmax(state.snapshot) and o.id > state.floor_id
      order by o.xid limit 1
    ) or exists (
      select from gapless.outbox_message_t o
      where o.xid = any (array(select pg_snapshot_xip(state.snapshot))) and o.id > state.floor_id
    );
end
$$;
