-- Grants of clients. Only operators may end the client of another role.
do $$
begin
  revoke execute on function gapless.end_client from gapless_consumer;
exception when undefined_object then
  null;    -- the roles could not be created (roles.sql)
end
$$;
