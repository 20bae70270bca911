-- Publish one event in the caller's transaction; returns its transaction_id. If the topic has had an event with this
-- dedupe_key, nothing is stored, and the transaction_id is that event's (publish_once.sql). With deliver_at, or
-- deliver_in, the event gets its offset not before that time; to cancel it, call publish_later() instead, which returns
-- the id as well. With to_group, only that group of the topic gets the event; with to_subscription as well, only that
-- subscription of the group (direct_headers.sql).
--   select gapless.publish('orders', '{"total": 5}', key => 'AA', event_type => 'order.created');
--   select gapless.publish('mails', '{"to": "a"}', deliver_in => '1 hour');
create or replace function gapless.publish(
  topic text, payload json, key text default null, event_type text default null,
  headers jsonb default null, host_id text default null, user_id text default null,
  transaction_id uuid default null, dedupe_key text default null,
  deliver_at timestamptz default null, deliver_in interval default null, to_group text default null,
  to_subscription text default null
) returns uuid
language plpgsql as $$
#variable_conflict use_column
declare
  id_of_topic int := gapless.topic_id(publish.topic);
  caused uuid := gapless.cause_uuid(nullif(current_setting('gapless.cause', true), ''));
begin
  if jsonb_typeof(publish.headers) <> 'object' then
    perform gapless.refuse_headers(publish.headers);
  end if;
  if publish.to_group is not null or publish.to_subscription is not null then
    publish.headers := gapless.direct_headers(
      publish.topic, publish.headers, publish.to_group, publish.to_subscription
    );
  end if;
  if publish.deliver_at is not null or publish.deliver_in is not null then
    return (
      select l.transaction_id
      from gapless.publish_later(
        publish.topic, publish.payload, publish.deliver_at, publish.deliver_in, publish.key,
        publish.event_type, publish.headers, publish.host_id, publish.user_id, publish.transaction_id,
        publish.dedupe_key
      ) l
    );
  end if;
  if publish.dedupe_key is not null then
    return (
      select o.transaction_id
      from gapless.publish_once(
        publish.topic, publish.payload, publish.dedupe_key, publish.key, publish.event_type,
        publish.headers, publish.host_id, publish.user_id, publish.transaction_id
      ) o
    );
  end if;
  insert into gapless.outbox_message_t
    (topic_id, key, event_type, payload, headers, host_id, user_id, transaction_id)
  values (
    id_of_topic, publish.key, publish.event_type, publish.payload, publish.headers,
    gapless.canonical_host(publish.host_id), publish.user_id, coalesce(publish.transaction_id, caused)
  );
  return coalesce(
    publish.transaction_id, caused, gapless.transaction_uuid(pg_current_xact_id(), gapless.timeline())
  );
end
$$;
