-- Subscriptions of groups, as they were made (functions/subscription/subscribe.sql). expires_after: null: never; else it
-- goes in time_left unless somebody renews it.
create or replace view gapless.subscriptions as
select
  s.group_id,
  t.name as topic,
  s.name,
  jsonb_object(f.match_names, f.match_paths) as match,
  f.condition::text as condition,
  s.params,
  s.set_by,
  s.set_ts,
  s.expires_after,
  case
    when s.expires_after is not null
      then least(greatest(s.renewed_at + s.expires_after - gapless.expiry_reading(), '0'), s.expires_after)
  end as time_left
from gapless.subscription s
join gapless.subscription_form f using (form_id)
join gapless.topic t on t.topic_id = s.topic_id;

comment on view gapless.subscriptions is 'Subscriptions of groups, as they were made.';
