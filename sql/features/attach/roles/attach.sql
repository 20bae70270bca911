-- Grants of attach. An attachment reads and writes with an operator's own rights, on other tables, too.
do $$
begin
  grant insert, update, delete
    on gapless.attached, gapless.attached_row, gapless.attached_miss, gapless.attached_group
    to gapless_operator;
  revoke execute on function
    gapless.attach, gapless.detach, gapless.attach_rows, gapless.note_attach, gapless.hold_still
    from gapless_consumer;
exception when undefined_object then
  null;    -- the roles could not be created (roles.sql)
end
$$;
