-- As finish_batch(), for a handler that may have published (tell_cause()). units: so often it was called;
-- what it takes in one call, a whole batch perhaps, is one.
-- Raises GL004 when it published and nobody had said what was being handled, or could say it of what
-- is published at COMMIT, by a deferred trigger.
-- plan: inlined. A call that published nothing, or said what for, is finished without PL/pgSQL: what one event costs.
create or replace function gapless.finish_units(_claim_xid text, _units int)
returns boolean
language sql
as $$
  select case
    when case
      when _units > 1 or current_setting('gapless.chain', true) = 'untold' then gapless.close_chain(_units) is not null
      else set_config('gapless.chain', 'closed', true) is not null
    end then gapless.finish_batch(_claim_xid)
  end
$$;
