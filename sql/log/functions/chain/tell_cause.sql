-- What is published while a unit is handled is a unit of its own (I10), and says what it came of.
--
-- A consuming transaction handles many units, and all it publishes carries one xid. So it says which
-- unit is being handled, in two settings of its own that the defaults of outbox_message_t read:
--   gapless.cause        the unit's idempotency key; empty: nobody has said
--   gapless.correlation  the transaction_id of the first event of the chain
-- To say it costs a round trip a unit, so nobody does for a handler that publishes nothing. A third
-- setting finds out which ones do; a claim begins it:
--   gapless.chain        'open' from the claim on; 'untold' once something was published without a
--                        cause (wake_sequencer()); 'closed' from finish_units() on
-- finish_units() refuses the COMMIT of what is 'untold': the batch is handled once more, and told.

-- Say what is being handled, for the rest of the transaction, or until somebody else says it.
create or replace function gapless.tell_cause(cause text, correlation uuid)
returns void
language plpgsql
as $$
begin
  perform set_config('gapless.cause', coalesce(tell_cause.cause, ''), true),
    set_config('gapless.correlation', coalesce(tell_cause.correlation::text, ''), true);
end
$$;
