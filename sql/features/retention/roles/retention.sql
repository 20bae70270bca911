-- Grants of retention. Only operators may change the time for which a topic keeps its events.
do $$
begin
  revoke execute on function gapless.set_retention from gapless_consumer;
exception when undefined_object then
  null;    -- the roles could not be created (roles.sql)
end
$$;
