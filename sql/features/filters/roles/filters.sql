-- Grants of subscriptions. Only operators may make, renew and remove them, and the conditions that they share.
do $$
begin
  revoke execute on function
    gapless.subscribe, gapless.unsubscribe, gapless.renew_subscription, gapless.lock_subscriptions,
    gapless.begin_subscriptions, gapless.forget_subscription, gapless.forget_form, gapless.resume_subscription,
    gapless.set_missed_aside, gapless.make_condition, gapless.drop_condition
    from gapless_consumer;
exception when undefined_object then
  null;    -- the roles could not be created (roles.sql)
end
$$;
