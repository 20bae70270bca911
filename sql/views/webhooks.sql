-- Webhooks, with what is known of each: how far it is, what waits, what is dead, and why it does not continue.
-- lag: events that its group has not passed. A webhook that is being removed is not here.
create or replace view gapless.webhooks as
select
  w.name,
  t.name as topic,
  w.url,
  w.secrets,
  f.event_types,
  f.condition::text as condition,
  f.params,
  w.rate,
  w.concurrency,
  w.keeps_order,
  w.retry_delays_s,
  w.allow_http,
  exists (select from gapless.group_pause p where p.group_id = g.group_id) as paused,
  (
    select string_agg(distinct p.reason, '; ') from gapless.group_pause p where p.group_id = g.group_id
  ) as pause_reason,
  (select coalesce(sum(l.lag), 0)::bigint from gapless.lag l where l.group_id = g.group_id) as lag,
  (
    select count(*) from gapless.dead_letter d
    where d.group_id = g.group_id and d.state in ('waiting', 'parked')
  ) as waiting,
  (select count(*) from gapless.dead_letter d where d.group_id = g.group_id and d.state = 'dead') as dead,
  exists (select from gapless.member_group m where m.group_id = g.group_id) as is_run,
  s.delivered,
  s.failed,
  s.last_error,
  s.last_ts,
  s.circuit_ts,
  w.added_by,
  w.added_ts
from gapless.webhook w
join gapless.topic t using (topic_id)
join gapless.webhook_state s on s.name = w.name
left join gapless.consumer_group g
  on g.group_id = gapless.webhook_group(w.name) and g.topic_id = w.topic_id
left join gapless.group_filter f on f.group_id = g.group_id and f.topic_id = g.topic_id
where w.removed_ts is null;

comment on view gapless.webhooks is 'Endpoints that are called with events, and how each does.';
