-- Stop a webhook that shares a group: in each partition its events wait from the group's offset on, as those of a
-- subscription whose condition raised (stop_subscriptions.sql), until resume_subscription(). Where it is stopped
-- already it stays so, with the new reason; null: its present one. False: it was stopped everywhere.
-- Workers still get its events that they have in hand or have read ahead: the delivering worker drops those at or after
-- the place, because they are set aside again when it is resumed.
-- locks: the group's offsets, shared, by partition: so no seek passes the place by
create or replace function gapless.stop_shared_webhook(_webhook gapless.webhook, _reason text) returns boolean
language plpgsql as $$
declare
  own_group text := gapless.group_of_webhook(_webhook);
  had bigint;
  why text;
  has bigint;
begin
  perform from gapless.consumer_offsets c
  where c.group_id = own_group and c.topic_id = _webhook.topic_id
  order by c.partition_id
  for share;
  select count(p.partition_id), coalesce(_reason, min(p.reason)) into had, why
  from gapless.subscription s join gapless.subscription_stop p using (subscription_id)
  where s.group_id = own_group and s.topic_id = _webhook.topic_id and s.name = _webhook.name;
  insert into gapless.subscription_stop as p (subscription_id, partition_id, from_offset, reason)
  select s.subscription_id, c.partition_id, c.next_offset, left(why, 500)
  from gapless.subscription s
  join gapless.consumer_offsets c using (group_id, topic_id)
  where s.group_id = own_group and s.topic_id = _webhook.topic_id and s.name = _webhook.name
  order by c.partition_id
  on conflict on constraint subscription_stop_pkey do update set reason = excluded.reason;
  get diagnostics has = row_count;
  if has > had then
    insert into gapless.audit (action, group_id, topic_id, detail)
    values (
      'stop_subscriptions', own_group, _webhook.topic_id,
      jsonb_build_object('subscriptions', 1, 'first', _webhook.name, 'reason', left(why, 300))
    );
  end if;
  return has > had;
end
$$;
