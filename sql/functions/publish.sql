-- Publish one event in the caller's transaction; returns its transaction_id.
--   select gapless.publish('orders', '{"total": 5}', key => 'AA', event_type => 'order.created');
create or replace function gapless.publish(
  topic text, payload json, key text default null, event_type text default null,
  headers jsonb default null, host_id text default null, user_id text default null,
  transaction_id uuid default null
)
returns uuid
language plpgsql
as $$
#variable_conflict use_column
declare
  id_of_topic int := gapless.topic_id(publish.topic);
  caused uuid := gapless.cause_uuid(nullif(current_setting('gapless.cause', true), ''));
begin
  insert into gapless.outbox_message_t
    (topic_id, key, event_type, payload, headers, host_id, user_id, transaction_id)
  values (
    id_of_topic, publish.key, publish.event_type, publish.payload, publish.headers,
    publish.host_id, publish.user_id, coalesce(publish.transaction_id, caused)
  );
  return coalesce(
    publish.transaction_id, caused, gapless.transaction_uuid(pg_current_xact_id(), gapless.timeline())
  );
end
$$;
