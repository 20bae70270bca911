-- Remove a subscription: from now on nothing is matched for it. Returns whether it was there. A group without its last
-- subscription takes nothing; clear_filter() lets it take all events. Raises GL404 for an unknown group.
-- locks: the group's filter row
create or replace function gapless.unsubscribe(group_id text, topic text, name text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  wanted int := gapless.topic_id(topic);
begin
  if not gapless.lock_subscriptions(unsubscribe.group_id, unsubscribe.topic, wanted)
    or not gapless.forget_subscription(unsubscribe.group_id, wanted, unsubscribe.name)
  then
    perform gapless.group_partitions(unsubscribe.group_id, unsubscribe.topic);
    return false;
  end if;
  insert into gapless.audit (action, group_id, topic_id, detail)
  values ('unsubscribe', unsubscribe.group_id, wanted, jsonb_build_object('name', unsubscribe.name));
  return true;
end
$$;
