-- Begin to handle the events of a receipt, as the first statement of the handler's transaction: from now on they count
-- as handled, which commits or rolls back with the handler's writes (Q4). While the transaction is open no other worker
-- takes them over, whatever the deadline. Then finish_units(claim_xid, 1) and COMMIT; or ROLLBACK, after which the
-- receipt is as before. c_offset: only that event. Returns claim_xid. Raises GL003 when the receipt is no longer valid.
create or replace function gapless.begin_receipt(_receipt text, _c_offset bigint default null) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
begin
  perform gapless.settle_receipt(_receipt, _c_offset, null);
  perform set_config('gapless.chain', 'open', true);    -- see tell_cause()
  return pg_current_xact_id()::text;
end
$$;
