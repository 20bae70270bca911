-- Wait until a group has handled a published transaction, or has put it aside for good. Returns the state that
-- gapless.transaction_state() gives then, or when the time is over, or when waiting cannot help.
--   select gapless.wait_for('billing', gapless_transaction_id, '5 s') = 'handled';
-- Call it outside the publishing transaction, under READ COMMITTED. It looks every 2 to 50 ms.
create or replace function gapless.wait_for(group_id text, transaction_id uuid, timeout interval default '10 s')
returns text
language sql security definer set search_path = pg_catalog, pg_temp as $$
  select w.state
  from gapless.wait_through(array[wait_for.group_id], wait_for.transaction_id, wait_for.timeout) w
$$;
