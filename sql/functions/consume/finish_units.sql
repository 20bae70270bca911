-- As finish_batch(), for a handler that may have published (tell_cause()). units: so often it was called;
-- what it takes in one call, a whole batch perhaps, is one.
-- Raises GL004 when it published and nobody had said what was being handled, or could say it of what
-- is published at COMMIT, by a deferred trigger.
create or replace function gapless.finish_units(_claim_xid text, _units int)
returns boolean
language plpgsql
as $$
begin
  perform gapless.close_chain(_units);
  return gapless.finish_batch(_claim_xid);
end
$$;
