-- Webhooks, with the state of each: its progress, waiting and dead units, and why it does not continue. lag: events
-- that its group has not passed, and those from the offset where it was stopped, if it shares a group. Removed webhooks
-- are not here.
create or replace view gapless.webhooks as
select
  w.name,
  t.name as topic,
  w.url,
  w.secrets,
  f.event_types,
  coalesce(f.condition, o.condition)::text as condition,
  case when w.shared then x.params else f.params end as params,
  w.rate,
  w.concurrency,
  w.keeps_order,
  w.retry_delays_s,
  w.allow_http,
  exists (select from gapless.group_pause p where p.group_id = g.group_id)
    or (p.reason is not null and s.circuit_ts is null) as paused,
  coalesce(
    (select string_agg(distinct q.reason, '; ') from gapless.group_pause q where q.group_id = g.group_id), p.reason
  ) as pause_reason,
  (
    select coalesce(sum(l.lag), 0)::bigint from gapless.lag l where l.group_id = g.group_id
  ) + coalesce(p.missed, 0) as lag,
  case when w.shared then coalesce(a.waiting, 0) else (
    select count(*) from gapless.dead_letter d
    where d.group_id = g.group_id and d.state in ('waiting', 'parked')
  ) end as waiting,
  case when w.shared then coalesce(a.dead, 0) else (
    select count(*) from gapless.dead_letter d where d.group_id = g.group_id and d.state = 'dead'
  ) end as dead,
  exists (select from gapless.member_group m where m.group_id = g.group_id) as is_run,
  s.delivered,
  s.failed,
  s.last_error,
  s.last_ts,
  s.circuit_ts,
  w.added_by,
  w.added_ts,
  w.shared,
  (select min(l.error) from gapless.lease l where l.group_id = g.group_id and l.topic_id = g.topic_id) as trouble
from gapless.webhook w
join gapless.topic t using (topic_id)
join gapless.webhook_state s on s.name = w.name
left join gapless.consumer_group g
  on g.topic_id = w.topic_id
  and g.group_id = gapless.group_of_webhook(w)
left join gapless.group_filter f on f.group_id = g.group_id and f.topic_id = g.topic_id
left join gapless.subscription x
  on w.shared and x.group_id = g.group_id and x.topic_id = g.topic_id and x.name = w.name
left join gapless.subscription_form o using (form_id)
left join lateral (
  select min(y.reason) as reason, sum(c.next_offset - y.from_offset)::bigint as missed
  from gapless.subscription_stop y
  join gapless.consumer_offsets c
    on c.group_id = g.group_id and c.topic_id = g.topic_id and c.partition_id = y.partition_id
  where y.subscription_id = x.subscription_id
) p on true
left join (
  select u.subscription_id, count(*) filter (where u.state <> 'dead') as waiting,
    count(*) filter (where u.state = 'dead') as dead
  from (
    select distinct n.n as subscription_id, d.partition_id, d.first_offset, d.state
    from (    -- MUST come first: there may be 10^5 letters of other groups
      select distinct gapless.group_of_webhook(v) as group_id, v.topic_id
      from gapless.webhook v
      where v.shared and v.removed_ts is null
    ) v
    join gapless.dead_letter d using (group_id, topic_id)
    join gapless.dead_letter_event e using (group_id, topic_id, partition_id, first_offset)
    cross join lateral unnest(e.subscriptions) n (n)
    where d.state in ('waiting', 'parked', 'dead')
  ) u
  group by u.subscription_id
) a on a.subscription_id = x.subscription_id
where w.removed_ts is null;

comment on view gapless.webhooks is 'Endpoints that are called with events, and how each does.';
