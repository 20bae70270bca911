-- Subscriptions of groups, with their definitions (subscribe()). expires_after: null: never; else the subscription goes
-- in time_left unless it is renewed. stopped_partitions: those in which its SQL condition raised or was slow, so its
-- events wait there (stop_subscriptions.sql); null: in none.
create or replace view gapless.subscriptions as
select
  s.group_id, t.name as topic, s.name,
  jsonb_object(f.match_names, f.match_paths) as match,
  f.condition::text as condition,
  s.params, s.set_by, s.set_ts, s.expires_after,
  case
    when s.expires_after is not null
      then least(greatest(s.renewed_at + s.expires_after - gapless.expiry_reading(), '0'), s.expires_after)
  end as time_left, c.expression as sql_condition, p.stopped_partitions, p.stopped_why, p.stopped_ts
from gapless.subscription s
join gapless.subscription_form f using (form_id)
join gapless.topic t on t.topic_id = s.topic_id
left join gapless.condition c on c.digest = f.condition_digest
left join lateral (
  select array_agg(x.partition_id order by x.partition_id) as stopped_partitions,
    (array_agg(x.reason order by x.stopped_ts, x.partition_id))[1] as stopped_why, min(x.stopped_ts) as stopped_ts
  from gapless.subscription_stop x where x.subscription_id = s.subscription_id
) p on true;

comment on view gapless.subscriptions is 'Subscriptions of groups, as they were made.';
