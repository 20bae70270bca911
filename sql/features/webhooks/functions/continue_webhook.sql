-- Let a webhook that shares a group continue: its missed events are set aside for it alone (resume_subscription.sql),
-- and units that were set aside for it are due at once. Returns whether it was stopped.
-- locks: the webhook's row, as resume_subscription(), then letters that no other session has locked
create or replace function gapless.continue_webhook(_webhook gapless.webhook) returns boolean
language plpgsql as $$
declare
  of_topic text := (select t.name from gapless.topic t where t.topic_id = _webhook.topic_id);
  own_group text := gapless.group_of_webhook(_webhook);
  was_stopped boolean;
begin
  update gapless.webhook_state s set circuit_ts = null, probe_ts = null
  where s.name = _webhook.name and s.circuit_ts is not null;
  was_stopped := gapless.resume_subscription(own_group, of_topic, _webhook.name) is not null;
  update gapless.dead_letter d set next_attempt_ts = clock_timestamp()
  from (
    select l.group_id, l.topic_id, l.partition_id, l.first_offset
    from gapless.dead_letter l
    where l.group_id = own_group and l.topic_id = _webhook.topic_id and l.state = 'waiting'
      and l.next_attempt_ts > clock_timestamp()
      and exists (
        select from gapless.dead_letter_event e
        join gapless.subscription s on s.subscription_id = any (e.subscriptions)
        where e.group_id = l.group_id and e.topic_id = l.topic_id and e.partition_id = l.partition_id
          and e.c_offset between l.first_offset and l.last_offset and e.first_offset = l.first_offset
          and s.name = _webhook.name and s.group_id = own_group
      )
    for update skip locked
  ) l
  where d.group_id = l.group_id and d.topic_id = l.topic_id and d.partition_id = l.partition_id
    and d.first_offset = l.first_offset;
  return was_stopped;
end
$$;
