-- Publish for a unit that is being handled, as a caller that names the unit: Python's gapless.publish(). Afterwards the
-- transaction's cause is the one from before the call, if any (tell_cause()).
create or replace function gapless.publish_from(
  cause text, correlation uuid,
  topic text, payload json, key text default null, event_type text default null,
  headers jsonb default null, host_id text default null, user_id text default null,
  transaction_id uuid default null
) returns uuid
language plpgsql as $$
declare
  told text := current_setting('gapless.cause', true);
  told_correlation text := current_setting('gapless.correlation', true);
  published_as uuid;
begin
  perform gapless.tell_cause(cause, correlation);
  published_as := gapless.publish(
    topic, payload, key, event_type, headers, host_id, user_id, transaction_id
  );
  perform gapless.tell_cause(told, nullif(told_correlation, '')::uuid);
  return published_as;
end
$$;
