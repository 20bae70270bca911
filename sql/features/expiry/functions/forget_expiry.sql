-- Delete the expiry of a group that is deleted; a group that keeps other topics keeps it.
create or replace function gapless.forget_expiry() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from gapless.group_expiry e
  where e.group_id = old.group_id
    and not exists (select from gapless.consumer_group g where g.group_id = old.group_id);
  return null;
end
$$;

create or replace trigger forget_expiry after delete on gapless.consumer_group
for each row execute function gapless.forget_expiry();
