-- Publish one event in the caller's transaction that gets its offset at deliver_at, or deliver_in after the transaction
-- began, and not before. Give one of the two; a time in the past means now.
--   select scheduled_id from gapless.publish_later('mails', '{"to": "a"}', deliver_in => '1 hour');
-- scheduled_id: for cancel(); null when the event is published at once, or is a duplicate. transaction_id: as publish()
-- returns it. A dedupe_key works as in publish_once(): the window counts from now, not from deliver_at. Producers may
-- call this function; they cannot read waiting events.
create or replace function gapless.publish_later(
  topic text, payload json, deliver_at timestamptz default null, deliver_in interval default null,
  key text default null, event_type text default null, headers jsonb default null,
  host_id text default null, user_id text default null, inout transaction_id uuid default null,
  dedupe_key text default null, out scheduled_id bigint, out duplicate boolean
)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  due timestamptz := gapless.deliver_time(publish_later.deliver_at, publish_later.deliver_in);
  id_of_topic int := gapless.topic_id(publish_later.topic);
  given uuid := coalesce(
    publish_later.transaction_id,
    gapless.cause_uuid(nullif(current_setting('gapless.cause', true), ''))
  );
begin
  if jsonb_typeof(publish_later.headers) <> 'object' then
    perform gapless.refuse_headers(publish_later.headers);
  end if;
  if publish_later.dedupe_key is not null then
    select o.transaction_id, o.scheduled_id, o.duplicate
    into transaction_id, scheduled_id, duplicate
    from gapless.publish_once(
      publish_later.topic, publish_later.payload, publish_later.dedupe_key, publish_later.key,
      publish_later.event_type, publish_later.headers, publish_later.host_id, publish_later.user_id,
      publish_later.transaction_id, publish_later.deliver_at, publish_later.deliver_in
    ) o;
    return;
  end if;
  duplicate := false;
  transaction_id := coalesce(given, gapless.transaction_uuid(pg_current_xact_id(), gapless.timeline()));
  if due is null then
    insert into gapless.outbox_message_t
      (topic_id, key, event_type, payload, headers, host_id, user_id, transaction_id)
    values (
      id_of_topic, publish_later.key, publish_later.event_type, publish_later.payload,
      publish_later.headers, gapless.canonical_host(publish_later.host_id), publish_later.user_id, given
    );
    return;
  end if;
  scheduled_id := gapless.schedule_event(
    due, id_of_topic, publish_later.payload, publish_later.key, publish_later.event_type,
    publish_later.headers, publish_later.host_id, publish_later.user_id, given,
    _counts_from => case when publish_later.deliver_in is not null then now() end
  );
end
$$;
