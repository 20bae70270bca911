-- Publish the event of a schedule for one due time. Its transaction_id follows from both, so it is the same for every
-- caller; its headers name the schedule and the due time.
create or replace function gapless.publish_due(
  _schedule gapless.schedule, _due timestamptz, _by_hand boolean default false
) returns uuid
language plpgsql as $$
declare
  due_text text := to_char(_due at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"');
  published_as uuid := gapless.cause_uuid(
    'schedule ' || (_schedule).name || '@' || due_text || case when _by_hand then ' by hand' else '' end
  );
begin
  insert into gapless.outbox_message_t
    (topic_id, key, event_type, payload, headers, host_id, user_id, transaction_id, cause, correlation)
  values (
    (_schedule).topic_id, (_schedule).key, coalesce((_schedule).event_type, (_schedule).name),
    coalesce(
      (_schedule).payload, json_build_object('schedule', (_schedule).name, 'due', due_text)
    ),
    case when jsonb_typeof((_schedule).headers) = 'object' then (_schedule).headers else '{}' end
      || jsonb_build_object('gapless-schedule', (_schedule).name, 'gapless-due', due_text),
    null, null, published_as, null, null
  );
  return published_as;
end
$$;
