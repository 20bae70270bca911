-- Events that a group passed without success (I9), one row each; status says whether their unit is 'dead', 'discarded',
-- or still 'waiting' or 'parked'. Units that were handled after all are not here.
-- The first columns are those of the classic table of this name.
create or replace view gapless.dead_letter_queue as
select
  e.group_id, e.topic_id, e.partition_id, e.c_offset, e.message_id, e.host_id, e.user_id, e.key,
  e.transaction_id, e.event_type, e.payload, e.headers, e.created_ts, d.exception, d.sqlstate, d.attempts,
  d.state as status, d.last_failed_ts as created_dt, e.first_offset, d.reason, d.exception_class,
  d.next_attempt_ts, d.worker, d.duration_ms, d.first_failed_ts
from gapless.dead_letter d
join gapless.dead_letter_event e
  on e.group_id = d.group_id and e.topic_id = d.topic_id and e.partition_id = d.partition_id
  and e.c_offset between d.first_offset and d.last_offset and e.first_offset = d.first_offset
where d.state <> 'redriven';

comment on view gapless.dead_letter_queue is 'Events that a group passed without success.';
