-- Grants of classic names. Only operators may show and hide them.
do $$
begin
  revoke execute on function
    gapless.show_classic, gapless.hide_classic, gapless.note_classic_group, gapless.lock_classic,
    gapless.notify_classic, gapless.silence_classic
    from gapless_consumer;
exception when undefined_object then
  null;    -- the roles could not be created (roles.sql)
end
$$;
