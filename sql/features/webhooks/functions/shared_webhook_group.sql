-- Return the consumer group of all webhooks of a topic that share one. No webhook_group() has such a name.
create or replace function gapless.shared_webhook_group(_topic text) returns text
language sql immutable as $$
  select 'webhooks-' || _topic
$$;
