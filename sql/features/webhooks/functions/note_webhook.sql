-- Update the record of an endpoint: requests that succeeded and failed since the caller's last call, why the last one
-- failed (null: it did not), and whether the caller's circuit is open. Called every few seconds at most. A worker that
-- had a success closes the circuit.
create or replace function gapless.note_webhook(
  _name text, _delivered bigint, _failed bigint, _error text, _is_open boolean
) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update gapless.webhook_state s
  set delivered = s.delivered + _delivered,
    failed = s.failed + _failed,
    last_error = case when _delivered + _failed > 0 then left(_error, 500) else s.last_error end,
    last_ts = case when _delivered + _failed > 0 then clock_timestamp() else s.last_ts end,
    circuit_ts = case
      when _is_open then coalesce(s.circuit_ts, clock_timestamp())
      when _delivered = 0 then s.circuit_ts
    end,
    probe_ts = case when _is_open then coalesce(s.probe_ts, clock_timestamp()) end
  where s.name = _name
$$;
