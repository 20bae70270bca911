-- Groups that take the events that their subscriptions match (subscribe()): the number of subscriptions and of their
-- forms; of subscriptions that may expire, and that do so soon (in the last tenth of their time), with the first time;
-- and of those that were stopped, because their SQL conditions raised or were slow.
create or replace view gapless.subscribed_groups as
select
  f.group_id, f.topic_id, t.name as topic,
  count(s.subscription_id) as subscriptions,
  (
    select count(*) from gapless.subscription_form x where x.group_id = f.group_id and x.topic_id = f.topic_id
  ) as forms,
  count(s.expires_after) as may_expire,
  count(*) filter (where s.renewed_at + s.expires_after * 0.9 <= k.reading) as near,
  count(s.subscription_id) filter (
    where exists (select from gapless.subscription_stop p where p.subscription_id = s.subscription_id)
  ) as stopped,
  case
    when count(s.expires_after) > 0 then greatest(min(s.renewed_at + s.expires_after) - k.reading, '0')
  end as first_left
from gapless.group_filter f
join gapless.topic t using (topic_id)
cross join (select gapless.expiry_reading() as reading offset 0) k
left join gapless.subscription s on s.group_id = f.group_id and s.topic_id = f.topic_id
where f.subscribed
group by f.group_id, f.topic_id, t.name, k.reading;

comment on view gapless.subscribed_groups is 'Groups with subscriptions: how many, and how many of these go soon.';
