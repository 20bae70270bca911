-- Refuse the COMMIT of events that a worker has taken and not declared finished, as refuse_early_commit() does for
-- batches: otherwise a handler that executes COMMIT would finish events that it has not handled (Q4).
-- Rows with a holder belong to clients, which decide themselves when they commit.
create or replace function gapless.refuse_early_take() returns trigger
language plpgsql as $$
begin
  if current_setting('gapless.finished', true) is distinct from pg_current_xact_id()::text then
    perform gapless.refuse_commit();
  end if;
  return null;
end
$$;

do $$
begin
  if not exists (
    select from pg_trigger t
    where t.tgrelid = 'gapless.queue_range'::regclass and t.tgname = 'refuse_early_take'
  ) then
    create constraint trigger refuse_early_take
      after insert or update of holder on gapless.queue_range
      deferrable initially deferred
      for each row when (new.deadline is null and new.holder is null)
      execute function gapless.refuse_early_take();
  end if;
end
$$;
