-- Delete a subscription, and its form with the last one that has it; false: there is none.
-- A part of unsubscribe() and expire_subscriptions(), which lock the group's subscriptions.
create or replace function gapless.forget_subscription(_group_id text, _topic_id int, _name text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  form int;
begin
  delete from gapless.subscription s
  where s.group_id = _group_id and s.topic_id = _topic_id and s.name = _name
  returning s.form_id into form;
  if not found then
    return false;
  end if;
  perform gapless.forget_form(form);
  return true;
end
$$;
