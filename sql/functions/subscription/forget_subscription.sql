-- Delete a subscription, and its form with the last one that has it; false: there is none.
-- A part of subscribe() and unsubscribe(), which lock the group's subscriptions.
create or replace function gapless.forget_subscription(_group_id text, _topic_id int, _name text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  form int;
  digest uuid;
begin
  delete from gapless.subscription s
  where s.group_id = _group_id and s.topic_id = _topic_id and s.name = _name
  returning s.form_id into form;
  if not found then
    return false;
  end if;
  delete from gapless.subscription_form f
  where f.form_id = form and not exists (select from gapless.subscription s where s.form_id = form)
  returning f.condition_digest into digest;
  if digest is not null then
    perform gapless.drop_condition(digest);
  end if;
  return true;
end
$$;
