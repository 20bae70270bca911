-- Grants of the history: a role that may sequence may record the present minute (record_history), and no other one.
do $$
begin
  revoke execute on function
    gapless.record_history_at, gapless.record_series, gapless.pack_history, gapless.forget_history
    from gapless_consumer, gapless_operator;
exception when undefined_object then
  null;    -- the roles could not be created (roles.sql)
end
$$;
