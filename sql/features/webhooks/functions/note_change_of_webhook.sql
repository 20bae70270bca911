-- Audit a person's change of a webhook. A URL may be a secret: only its host is kept.
create or replace function gapless.note_change_of_webhook(_action text, _webhook gapless.webhook) returns void
language sql as $$
  insert into gapless.audit (action, group_id, topic_id, detail)
  values (
    _action, gapless.group_of_webhook(_webhook), _webhook.topic_id,
    jsonb_build_object('webhook', _webhook.name, 'host', substring(_webhook.url from '^[a-z]+://[^/?]+'))
  )
$$;
