-- Tell whether a webhook that shares a group is stopped in at least one partition.
create or replace function gapless.is_stopped_webhook(_webhook gapless.webhook) returns boolean
language sql stable as $$
  select exists (
    select from gapless.subscription s
    join gapless.subscription_stop p using (subscription_id)
    where s.group_id = gapless.group_of_webhook(_webhook) and s.topic_id = _webhook.topic_id
      and s.name = _webhook.name
  )
$$;
