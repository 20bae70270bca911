-- The producer's side of the wake handshake (docs/learn/concepts.md, Publishing): a sleeping sequencer holds
-- lock (7427001, 2) exclusively. If we get it shared, the sequencer is awake, and cannot fall asleep
-- before we end: nothing to do. If not, it sleeps: notify it. So NOTIFY, which serialises commits, is rare.
-- It runs once for each; `later` says that it should look for what is due as well.
-- It also notices what a consuming transaction publishes without a cause (cause.sql).
-- PostgreSQL refuses to prepare a transaction that has notified. So nobody notifies on a server where
-- transactions can be prepared (max_prepared_transactions), or who says `set gapless.wake = off`: there the
-- sequencer polls (sequencer_polls). `alter database … set gapless.wake = on` is for one where nobody who
-- publishes does.
create or replace function gapless.wake_sequencer()
returns trigger
language plpgsql
as $$
begin
  if current_setting('gapless.chain', true) <> ''
    and coalesce(current_setting('gapless.cause', true), '') = ''
  then
    if current_setting('gapless.chain', true) = 'closed' then
      perform gapless.refuse_untold();
    end if;
    perform set_config('gapless.chain', 'untold', true);
  end if;
  if current_setting('gapless.wake', true) = 'off' then
    return null;
  end if;
  if not pg_try_advisory_xact_lock_shared(7427001, 2) and not gapless.sequencer_polls() then
    perform pg_notify('gapless_sequencer', case when tg_table_name = 'scheduled' then 'later' else '' end);
  end if;
  return null;
end
$$;

create or replace trigger wake_sequencer
  before insert on gapless.outbox_message_t
  for each statement execute function gapless.wake_sequencer();

-- What waits for its time: so a sequencer that sleeps learns until when it may.
create or replace trigger wake_sequencer
  before insert on gapless.scheduled
  for each statement execute function gapless.wake_sequencer();
