-- Store an event that waits for its time; returns its scheduled_id. No other function does. The cause that a handler
-- named (tell_cause) is kept with it. counts_from: now() if the event waits for a delay, else null.
-- Called by functions that have checked all arguments.
create or replace function gapless.schedule_event(
  _deliver_at timestamptz, _topic_id int, _payload json, _key text, _event_type text, _headers jsonb,
  _host_id text, _user_id text, _transaction_id uuid, _dedupe_key text default null,
  _counts_from timestamptz default null
) returns bigint
language sql volatile as $$
  insert into gapless.scheduled
    (deliver_at, timeline, topic_id, payload, key, event_type, headers, host_id, user_id, transaction_id,
      dedupe_key, cause, correlation, counts_from)
  values (
    _deliver_at, gapless.timeline(), _topic_id, _payload, _key, _event_type, _headers,
    gapless.canonical_host(_host_id), _user_id, _transaction_id, _dedupe_key,
    nullif(current_setting('gapless.cause', true), ''),
    nullif(current_setting('gapless.correlation', true), '')::uuid, _counts_from
  )
  returning scheduled_id
$$;
