-- Return the transaction_id of events that a handler publishes without one. It follows from their cause, so it is the
-- same at every attempt. A UUID of version 8.
create or replace function gapless.cause_uuid(cause text) returns uuid
language sql immutable strict parallel safe as $$
  select overlay(overlay(
    encode(substring(sha256(convert_to(cause, 'UTF8')) for 16), 'hex')
    placing '8' from 13) placing '8' from 17)::uuid
$$;
