-- Refuse to take a shared webhook's subscription away, to let it expire, and to put one beside them that is no webhook:
-- such an endpoint would be called with nothing, and look well. Raises GL409.
create or replace function gapless.guard_shared_webhook() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  here gapless.subscription := case when tg_op = 'DELETE' then old else new end;
  is_shared_group boolean := here.group_id = (
    select gapless.shared_webhook_group(t.name) from gapless.topic t where t.topic_id = here.topic_id
  );
begin
  if is_shared_group and (case
    when exists (select from gapless.webhook w where w.name = here.name and w.shared and w.removed_ts is null)
      then tg_op = 'DELETE' or here.expires_after is not null
    else tg_op = 'INSERT' and exists (select from gapless.webhook w where w.shared and w.topic_id = here.topic_id)
  end) then
    raise exception
      'the subscriptions of group "%" are webhooks: gapless webhooks adds and removes them, not "%" alone',
      here.group_id, here.name
      using errcode = 'GL409';
  end if;
  return here;
end
$$;

drop trigger if exists subscription_of_webhook on gapless.subscription;
create trigger subscription_of_webhook before insert or update or delete on gapless.subscription
for each row execute function gapless.guard_shared_webhook();
