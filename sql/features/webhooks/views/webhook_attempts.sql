-- The newest requests to webhooks, of the last day, each with its answer. status null: there was none, and answer has
-- the error. partition_id null: a request without events tried the endpoint.
create or replace view gapless.webhook_attempts as
select w.name, a.attempt_no, a.at_ts, t.name as topic, a.partition_id, a.first_offset, a.event_type, a.attempt,
  a.status, a.answer, a.took_ms
from gapless.webhook_attempt a
join gapless.webhook w using (name)
join gapless.topic t using (topic_id)
where w.removed_ts is null and a.at_ts >= gapless.attempts_since();

comment on view gapless.webhook_attempts is 'The newest requests to webhooks, with their answers.';
