-- Declare a claimed batch finished; the caller's next statement is COMMIT. Returns false when this is
-- no longer the transaction that claimed: the handler committed or rolled back by itself.
create or replace function gapless.finish_batch(_claim_xid text) returns boolean
language sql as $$
  select case
    when pg_current_xact_id_if_assigned()::text = _claim_xid
      then set_config('gapless.finished', _claim_xid, true) = _claim_xid
    else false
  end
$$;
