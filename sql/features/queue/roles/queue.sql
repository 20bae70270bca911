-- Grants of queue groups. Only operators may let a group pass events that are missing.
do $$
begin
  revoke execute on function gapless.skip_missing from gapless_consumer;
exception when undefined_object then
  null;    -- the roles could not be created (roles.sql)
end
$$;
