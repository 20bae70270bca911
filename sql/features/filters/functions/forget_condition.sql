-- Drop an SQL condition with the last form that has it, whether a subscription goes or its group: drop_condition().
-- locks: as drop_condition()
create or replace function gapless.forget_condition() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform gapless.drop_condition(old.condition_digest);
  return null;
end
$$;

create or replace trigger forget_condition after delete on gapless.subscription_form
for each row when (old.condition_digest is not null) execute function gapless.forget_condition();
