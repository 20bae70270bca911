-- Events that wait for their time, with the topic's name (null: it is gone) and the transaction_id that their publisher
-- got.
create or replace view gapless.later as
select
  s.scheduled_id, t.name as topic, s.deliver_at, s.key, s.event_type, s.host_id, s.user_id,
  coalesce(s.transaction_id, gapless.transaction_uuid(s.xid, s.timeline)) as transaction_id,
  s.payload, s.headers, s.cause, s.dedupe_key,
  s.scheduled_by::text as scheduled_by,
  s.created_ts
from gapless.scheduled s
left join gapless.topic t using (topic_id);

comment on view gapless.later is 'Events that wait for their time: gapless later lists them.';
