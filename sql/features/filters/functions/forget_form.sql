-- Delete a form that no subscription has any more; its SQL condition goes with it (forget_condition.sql).
-- A part of subscribe() and forget_subscription(), whose callers lock the group's subscriptions.
create or replace function gapless.forget_form(_form_id int) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  delete from gapless.subscription_form f
  where f.form_id = _form_id and not exists (select from gapless.subscription s where s.form_id = _form_id)
$$;
