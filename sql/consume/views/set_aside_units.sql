-- Units that were set aside, a row each, with their place as one text: for tools that want a key of one column
-- (Django's models). content is made of the events only when it is selected.
create or replace view gapless.set_aside_units as
select
  format('%s/%s/%s@%s', d.group_id, t.name, d.partition_id, d.first_offset) as place,
  d.group_id,
  t.name::text as topic,
  d.partition_id, d.first_offset, d.events, d.state, d.reason, d.exception, d.attempts, d.first_failed_ts,
  d.last_failed_ts, d.next_attempt_ts, d.redriven_by, d.discarded_by, d.discard_reason,
  (
    select jsonb_pretty(jsonb_agg(jsonb_build_object(
      'offset', e.c_offset, 'key', e.key, 'event_type', e.event_type, 'headers', e.headers,
      'payload', e.payload
    ) order by e.c_offset))
    from gapless.dead_letter_event e
    where e.group_id = d.group_id and e.topic_id = d.topic_id and e.partition_id = d.partition_id
      and e.c_offset between d.first_offset and d.last_offset and e.first_offset = d.first_offset
  ) as content
from gapless.dead_letter d
join gapless.topic t using (topic_id);

comment on view gapless.set_aside_units is 'Units that a group passed without success, a row each.';
