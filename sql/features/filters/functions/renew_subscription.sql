-- Restart the time of a subscription that expires (subscribe.sql); to subscribe again does that, too. Returns whether
-- the subscription is there; subscribe() creates one that has gone. Raises GL404 for an unknown group.
-- locks: the subscription's row
create or replace function gapless.renew_subscription(group_id text, topic text, name text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  wanted int := gapless.topic_id(topic);
begin
  update gapless.subscription s
  set renewed_at = case when s.expires_after is null then s.renewed_at else gapless.expiry_reading() end
  where s.group_id = renew_subscription.group_id and s.topic_id = wanted and s.name = renew_subscription.name;
  if not found then
    perform gapless.group_partitions(renew_subscription.group_id, renew_subscription.topic);
    return false;
  end if;
  return true;
end
$$;
