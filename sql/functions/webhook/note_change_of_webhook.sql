-- Write down what a person did to a webhook. A URL may be a secret: only its host is kept.
create or replace function gapless.note_change_of_webhook(_action text, _webhook gapless.webhook)
returns void
language sql
as $$
  insert into gapless.audit (action, group_id, topic_id, detail)
  values (
    _action,
    case
      when _webhook.shared
        then (select gapless.shared_webhook_group(t.name) from gapless.topic t where t.topic_id = _webhook.topic_id)
      else gapless.webhook_group(_webhook.name)
    end,
    _webhook.topic_id,
    jsonb_build_object('webhook', _webhook.name, 'host', substring(_webhook.url from '^[a-z]+://[^/?]+'))
  )
$$;
