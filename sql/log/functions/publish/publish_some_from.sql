-- Publish several events in the order given, as publish_from(); an array that is null is a column without values.
create or replace function gapless.publish_some_from(
  cause text, correlation uuid,
  topic text, payload text[], key text[], event_type text[], headers text[], host_id text[],
  user_id text[], transaction_id text[]
) returns uuid
language plpgsql as $$
#variable_conflict use_column
declare
  id_of_topic int := gapless.topic_id(publish_some_from.topic);
  told text := current_setting('gapless.cause', true);
  told_correlation text := current_setting('gapless.correlation', true);
  published_as uuid := gapless.cause_uuid(publish_some_from.cause);
begin
  perform gapless.refuse_headers(h::jsonb) from unnest(publish_some_from.headers) h
  where jsonb_typeof(h::jsonb) <> 'object';
  perform gapless.tell_cause(publish_some_from.cause, publish_some_from.correlation);
  insert into gapless.outbox_message_t
    (topic_id, payload, key, event_type, headers, host_id, user_id, transaction_id)
  select id_of_topic, e.payload::json, e.key, e.event_type, e.headers::jsonb, e.host_id, e.user_id,
    coalesce(e.transaction_id::uuid, published_as)
  from (
    select unnest(publish_some_from.payload) as payload, unnest(publish_some_from.key) as key,
      unnest(publish_some_from.event_type) as event_type,
      unnest(publish_some_from.headers) as headers, unnest(publish_some_from.host_id) as host_id,
      unnest(publish_some_from.user_id) as user_id,
      unnest(publish_some_from.transaction_id) as transaction_id
  ) e;
  perform gapless.tell_cause(told, nullif(told_correlation, '')::uuid);
  return published_as;
end
$$;
