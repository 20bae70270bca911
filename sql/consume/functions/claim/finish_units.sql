-- Finish as finish_batch(), for a handler that may have published (tell_cause()). units: the number of its calls; the
-- argument of one call, perhaps a whole batch, counts as one.
-- Raises GL004 when the handler published without a cause, or a deferred trigger could publish without one at COMMIT.
-- plan: inlined. A call that published nothing, or with a cause, is finished without PL/pgSQL: its cost is per event.
create or replace function gapless.finish_units(_claim_xid text, _units int) returns boolean
language sql as $$
  select case
    when case
      when _units > 1 or current_setting('gapless.chain', true) = 'untold' then gapless.close_chain(_units) is not null
      else set_config('gapless.chain', 'closed', true) is not null
    end then gapless.finish_batch(_claim_xid)
  end
$$;
