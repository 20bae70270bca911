-- Is a webhook that shares a group stopped, in a partition at least?
create or replace function gapless.is_stopped_webhook(_webhook gapless.webhook)
returns boolean
language sql
stable
as $$
  select exists (
    select from gapless.topic t
    join gapless.subscription s on s.topic_id = t.topic_id and s.group_id = gapless.shared_webhook_group(t.name)
    join gapless.subscription_stop p using (subscription_id)
    where t.topic_id = _webhook.topic_id and s.name = _webhook.name
  )
$$;
