-- The producer's side of the wake handshake (docs/learn/concepts.md, Publishing): a sleeping sequencer holds lock
-- (7427001, 2) exclusively. If this session gets it shared, the sequencer is awake, and cannot fall asleep before the
-- transaction ends: nothing to do. If not, it sleeps: notify it. So NOTIFY, which serialises commits, is rare.
-- It runs once for each statement; `later` tells the sequencer to look for due events as well.
-- It also detects events that a consuming transaction publishes without a cause (cause.sql).
-- PostgreSQL refuses to prepare a transaction that has notified. So publishers do not notify on a server where
-- transactions can be prepared (max_prepared_transactions), nor after `set gapless.wake = off`: there the sequencer
-- polls (sequencer_polls). Use `alter database … set gapless.wake = on` where no publisher prepares transactions.
create or replace function gapless.wake_sequencer() returns trigger
language plpgsql as $$
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

-- A scheduled event: so a sleeping sequencer learns until when it may sleep.
create or replace trigger wake_sequencer
  before insert on gapless.scheduled
  for each statement execute function gapless.wake_sequencer();
