-- The role with whose rights SQL conditions of subscriptions are evaluated (ask_condition()): it may read nothing, and
-- has no login. Without the right to create it, or to give it a function, no subscription has a condition
-- (conditions_are_safe.sql), and everything else works. A role that is no superuser needs CREATEROLE.
do $$
begin
  if not exists (select from pg_roles r where r.rolname = 'gapless_condition') then
    begin
      create role gapless_condition nologin;
    exception when duplicate_object or unique_violation then
      null;    -- another database of this cluster was faster
    end;
  end if;
  if not pg_has_role(current_user, 'gapless_condition', 'usage') then
    execute format('grant gapless_condition to %I', current_user);
  end if;
  grant usage on schema gapless to gapless_condition;
  if not gapless.conditions_are_safe() then
    grant create on schema gapless to gapless_condition;    -- the new owner of an object needs CREATE
    alter function gapless.ask_condition(
      uuid, gapless.condition_event[], gapless.condition_subscription[], bigint[], bigint[]
    ) owner to gapless_condition;
    revoke create on schema gapless from gapless_condition;
  end if;
exception when insufficient_privilege then
  raise warning 'subscriptions will have no SQL conditions: % may not make role gapless_condition', current_user;
end
$$;
