-- Return the consumer group of a webhook, its own or the shared one.
create or replace function gapless.group_of_webhook(_webhook gapless.webhook) returns text
language sql stable as $$
  select case
    when not _webhook.shared then gapless.webhook_group(_webhook.name)
    else (select gapless.shared_webhook_group(t.name) from gapless.topic t where t.topic_id = _webhook.topic_id)
  end
$$;
