-- Refuse the COMMIT of a claimed batch that was not declared finished: otherwise a handler that executes COMMIT would
-- move the group's offset over events that it has not seen (I6).
create or replace function gapless.refuse_early_commit() returns trigger
language plpgsql as $$
begin
  -- Without a token the session was no worker of the partition: sweep() moves the floor of a queue group.
  if new.next_offset > old.next_offset and new.token is not null
    and current_setting('gapless.finished', true) is distinct from pg_current_xact_id()::text
    and current_setting('gapless.seeking', true) is distinct from pg_current_xact_id()::text
  then
    perform gapless.refuse_commit();
  end if;
  return null;
end
$$;

do $$
begin
  if not exists (
    select from pg_trigger t
    where t.tgrelid = 'gapless.consumer_offsets'::regclass and t.tgname = 'refuse_early_commit'
  ) then
    create constraint trigger refuse_early_commit
      after update of next_offset on gapless.consumer_offsets
      deferrable initially deferred
      for each row execute function gapless.refuse_early_commit();
  end if;
end
$$;
