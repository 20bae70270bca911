-- Grants of capture. Only operators may capture a table, release it, or mend its triggers.
do $$
begin
  revoke execute on function
    gapless.capture, gapless.release_capture, gapless.mend_capture, gapless.capture_rows, gapless.note_capture,
    gapless.renew_capture, gapless.forget_capture
    from gapless_consumer;
exception when undefined_object then
  null;    -- the roles could not be created (roles.sql)
end
$$;
