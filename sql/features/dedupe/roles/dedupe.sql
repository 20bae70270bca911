-- Grants of dedupe. Only operators may change a topic's window; dedupe_find() is a part of publish_once().
do $$
begin
  revoke execute on function gapless.dedupe_find, gapless.set_dedupe_window from gapless_consumer;
exception when undefined_object then
  null;    -- the roles could not be created (roles.sql)
end
$$;
