-- Fail now if a deferred constraint would fail at COMMIT, while the savepoint of the violating unit can still be rolled
-- back. The checks run in a subtransaction that is always undone, so that the constraints are deferred again for the
-- next unit, and are checked once more at COMMIT.
create or replace function gapless.check_constraints() returns void
language plpgsql as $$
begin
  begin
    perform set_config('gapless.finished', pg_current_xact_id()::text, true);
    set constraints all immediate;
    raise exception using errcode = 'GL000';
  exception when sqlstate 'GL000' then
    null;
  end;
end
$$;
