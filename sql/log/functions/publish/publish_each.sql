-- Publish many events in the order given, each with a dedupe_key or without, as publish_once() and publish() do.
-- Returns a row for each (message_id is null for one without a dedupe_key). The arrays are as long as payloads, or null
-- where no event has a value; they are texts, as in Python's publish(). deliver_ats and deliver_ins: as in
-- publish_later(); scheduled_id is null for events that are published at once. to_groups and to_subscriptions: as in
-- publish().
--   select * from gapless.publish_each('orders', array['1', '2'], dedupe_keys => array['a', 'b']);
create or replace function gapless.publish_each(
  topic text, payloads text[], keys text[] default null, event_types text[] default null,
  headers text[] default null, host_ids text[] default null, user_ids text[] default null,
  transaction_ids text[] default null, dedupe_keys text[] default null,
  deliver_ats text[] default null, deliver_ins text[] default null,
  to_groups text[] default null, to_subscriptions text[] default null
) returns table (transaction_id uuid, message_id bigint, duplicate boolean, scheduled_id bigint)
language plpgsql as $$
#variable_conflict use_column
declare
  id_of_topic int := gapless.topic_id(publish_each.topic);
  caused uuid := gapless.cause_uuid(nullif(current_setting('gapless.cause', true), ''));
  event record;
begin
  for event in
    select * from unnest(
      publish_each.payloads, publish_each.keys, publish_each.event_types, publish_each.headers,
      publish_each.host_ids, publish_each.user_ids, publish_each.transaction_ids,
      publish_each.dedupe_keys, publish_each.deliver_ats, publish_each.deliver_ins,
      publish_each.to_groups, publish_each.to_subscriptions
    ) u (payload, key, event_type, headers, host_id, user_id, transaction_id, dedupe_key, deliver_at,
      deliver_in, to_group, to_subscription)
  loop
    if jsonb_typeof(event.headers::jsonb) <> 'object' then
      perform gapless.refuse_headers(event.headers::jsonb);
    end if;
    if event.to_group is not null or event.to_subscription is not null then
      event.headers := gapless.direct_headers(
        publish_each.topic, event.headers::jsonb, event.to_group, event.to_subscription
      )::text;
    end if;
    scheduled_id := null;
    if event.deliver_at is not null or event.deliver_in is not null then
      select l.transaction_id, l.duplicate, l.scheduled_id
      into transaction_id, duplicate, scheduled_id
      from gapless.publish_later(
        publish_each.topic, event.payload::json, event.deliver_at::timestamptz,
        event.deliver_in::interval, event.key, event.event_type, event.headers::jsonb, event.host_id,
        event.user_id, event.transaction_id::uuid, event.dedupe_key
      ) l;
      message_id := null;
    elsif event.dedupe_key is not null then
      select o.transaction_id, o.message_id, o.duplicate
      into transaction_id, message_id, duplicate
      from gapless.publish_once(
        publish_each.topic, event.payload::json, event.dedupe_key, event.key, event.event_type,
        event.headers::jsonb, event.host_id, event.user_id, event.transaction_id::uuid
      ) o;
    else
      insert into gapless.outbox_message_t
        (topic_id, payload, key, event_type, headers, host_id, user_id, transaction_id)
      values (
        id_of_topic, event.payload::json, event.key, event.event_type, event.headers::jsonb,
        gapless.canonical_host(event.host_id), event.user_id, coalesce(event.transaction_id::uuid, caused)
      );
      transaction_id := coalesce(
        event.transaction_id::uuid, gapless.own_transaction_id()
      );
      message_id := null;
      duplicate := false;
    end if;
    return next;
  end loop;
end
$$;
