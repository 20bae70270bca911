-- Grants of webhooks. Only operators may add, pause, replay and remove endpoints.
do $$
begin
  revoke execute on function
    gapless.add_webhook, gapless.remove_webhook, gapless.pause_webhook, gapless.resume_webhook,
    gapless.replay_webhook
    from gapless_consumer;
exception when undefined_object then
  null;    -- the roles could not be created (roles.sql)
end
$$;
