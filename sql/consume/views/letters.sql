-- Dead letters with the name of their topic; error is their most telling line.
create or replace view gapless.letters as
select
  d.group_id, t.name as topic, d.partition_id, d.c_offset, d.key, d.event_type, d.transaction_id,
  d.reason as error, d.sqlstate, d.attempts, d.status, d.created_ts, d.created_dt, d.host_id, d.user_id,
  d.payload, d.headers, d.exception, d.message_id, d.topic_id, d.first_offset, d.reason, d.next_attempt_ts,
  d.worker, d.duration_ms
from gapless.dead_letter_queue d
join gapless.topic t using (topic_id);

comment on view gapless.letters is 'Dead letters: events that a group passed without success.';
