-- Let the server end this session when its transaction is left open and idle for so long: a client that hangs, or never
-- commits, holds rows, and after planning a table, for which others wait (I8, I11). A shorter limit of the session
-- stays. The limit holds until the transaction ends; a running statement is not cut off.
create or replace function gapless.bound_idle(_at_most interval) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  allowed interval := current_setting('idle_in_transaction_session_timeout')::interval;    -- 0: none
begin
  if allowed = interval '0' or allowed > _at_most then
    perform set_config(
      'idle_in_transaction_session_timeout', (1000 * extract(epoch from _at_most))::bigint::text, true
    );
  end if;
end
$$;
