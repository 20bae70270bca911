-- Grants of schemas. Producers read a topic's schemas; only operators may add and remove them.
do $$
begin
  grant select on gapless.topic_schema to gapless_producer;
  revoke execute on function gapless.set_schema, gapless.remove_schema from gapless_consumer;
exception when undefined_object then
  null;    -- the roles could not be created (roles.sql)
end
$$;
