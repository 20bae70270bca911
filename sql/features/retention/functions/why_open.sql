-- Explain to people why a chunk is not complete yet (close_chunks.sql).
create or replace function gapless.why_open(_upto bigint) returns text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  state gapless.sequencer;
  allocated bigint;
begin
  select * into strict state from gapless.sequencer s order by s.run desc limit 1;
  select s.last_value - (not s.is_called)::int into allocated from gapless.outbox_message_id_seq s;
  return case
    when allocated + 1 < _upto then 'it is in use: it has room for more events'
    when state.stragglers <> '{}' then
      'it is in use: a transaction is open that began before the log was restored'
    when _upto <= state.floor_id + 1 then 'it is complete: the next look takes it into account'
    when gapless.pending() then 'it is in use: events wait for an offset'
    when pg_snapshot_xmin(pg_current_snapshot()) < state.next_floor_xid then
      'it is in use: a transaction is open that may have events in it'
    else 'not looked at since its last event: gapless run does that, and gapless retention --apply'
  end;
end
$$;
