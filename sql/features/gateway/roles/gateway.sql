-- Grants of the gateway. Only operators may create and revoke its keys.
do $$
begin
  revoke execute on function gapless.create_api_key, gapless.revoke_api_key from gapless_consumer;
exception when undefined_object then
  null;    -- the roles could not be created (roles.sql)
end
$$;
