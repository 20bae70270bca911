-- Grants of expiry. Only operators may say when a group expires.
do $$
begin
  revoke execute on function gapless.set_expiry from gapless_consumer;
exception when undefined_object then
  null;    -- the roles could not be created (roles.sql)
end
$$;
