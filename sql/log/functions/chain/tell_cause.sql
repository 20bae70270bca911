-- Events that are published while a unit is handled are a unit of their own (I10), and name their cause.
--
-- A consuming transaction handles many units, and all events that it publishes carry one xid. So it names the unit that
-- is being handled in two settings of its own, which the defaults of outbox_message_t read:
--   gapless.cause        the unit's idempotency key; empty: no cause was named
--   gapless.correlation  the transaction_id of the first event of the chain
-- This costs a round trip a unit, so it is not done for a handler that publishes nothing. A third setting finds out
-- which handlers publish; a claim begins it:
--   gapless.chain        'open' from the claim on; 'untold' once an event was published without a cause
--   (wake_sequencer()); 'closed' from finish_units() on
-- finish_units() refuses the COMMIT of an 'untold' batch: the batch is handled once more, with causes.

-- Name the unit that is being handled, until the transaction ends or the next call.
create or replace function gapless.tell_cause(cause text, correlation uuid) returns void
language plpgsql as $$
begin
  perform set_config('gapless.cause', coalesce(tell_cause.cause, ''), true),
    set_config('gapless.correlation', coalesce(tell_cause.correlation::text, ''), true);
end
$$;
