-- Begin to handle what a receipt holds, in the handler's transaction: from now on it counts as handled, and commits as
-- that, or not, with whatever the handler writes (Q4). While the transaction is open nobody takes it over, whatever
-- the deadline. finish_receipt() then COMMIT; or ROLLBACK, after which the receipt counts as before.
-- Returns claim_xid for finish_receipt(). Raises GL003 when the receipt counts no more.
create or replace function gapless.claim_receipt(_group_id text, _topic text, _receipt text)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
begin
  perform gapless.settle_receipt(_group_id, _topic, _receipt, null, null);
  perform set_config('gapless.chain', 'open', true);    -- see tell_cause()
  return pg_current_xact_id()::text;
end
$$;
