-- Delete a form that no subscription has any more, and its SQL condition with the last form that has it.
-- A part of subscribe() and forget_subscription(), whose callers lock the group's subscriptions.
create or replace function gapless.forget_form(_form_id int)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  digest uuid;
begin
  delete from gapless.subscription_form f
  where f.form_id = _form_id and not exists (select from gapless.subscription s where s.form_id = _form_id)
  returning f.condition_digest into digest;
  if digest is not null then
    perform gapless.drop_condition(digest);
  end if;
end
$$;
