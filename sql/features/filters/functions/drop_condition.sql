-- Drop a compiled condition that no subscription has any more. A part of forget_subscription().
-- locks: condition, against others that compile or drop one
create or replace function gapless.drop_condition(_digest uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  lock table gapless.condition in share row exclusive mode;
  perform from gapless.condition c where c.digest = _digest for update;    -- another session may just have found it
  if exists (select from gapless.subscription_form f where f.condition_digest = _digest) then
    return;
  end if;
  delete from gapless.condition c where c.digest = _digest;
  execute format(
    'drop function if exists gapless.%I(gapless.condition_event, gapless.condition_subscription)',
    'condition_' || replace(_digest::text, '-', '')
  );
end
$$;
