-- Let the server end this session if its transaction is left open and idle for as long: a client that hangs, or never
-- commits, holds rows, and after planning a table, that others wait for (I8, I11). A shorter limit of its own stays.
-- Until the transaction ends; a statement at work is not cut off.
create or replace function gapless.bound_idle(_at_most interval)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
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
