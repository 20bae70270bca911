-- Refuse the COMMIT of a unit that was claimed but not declared finished, as refuse_early_commit() does for batches:
-- otherwise a handler that executes COMMIT would handle the unit without a record of it (I6).
create or replace function gapless.refuse_early_letter() returns trigger
language plpgsql as $$
begin
  -- A unit with a token belongs to a client of a queue group, which decides itself when it commits.
  if new.token is null
    and current_setting('gapless.finished', true) is distinct from pg_current_xact_id()::text then
    perform gapless.refuse_commit();
  end if;
  return null;
end
$$;

do $$
begin
  if not exists (
    select from pg_trigger t
    where t.tgrelid = 'gapless.dead_letter'::regclass and t.tgname = 'refuse_early_letter'
  ) then
    create constraint trigger refuse_early_letter
      after update of state on gapless.dead_letter
      deferrable initially deferred
      for each row when (new.state = 'redriven' and old.state = 'waiting')
      execute function gapless.refuse_early_letter();
  end if;
end
$$;
