-- Grants of direct messages. Producers send requests and replies; only operators may open a topic for them.
do $$
begin
  grant execute on function
    gapless.direct_headers, gapless.request, gapless.reply, gapless.reply_uuid, gapless.wait_reply
    to gapless_producer;
  revoke execute on function gapless.set_direct from gapless_consumer;
exception when undefined_object then
  null;    -- the roles could not be created (roles.sql)
end
$$;
