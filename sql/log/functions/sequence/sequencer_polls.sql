-- Tell whether a sleeping sequencer has to look by itself, because publishers do not wake it: NOTIFY would keep them
-- from PREPARE TRANSACTION, and they cannot know whether it sleeps.
create or replace function gapless.sequencer_polls() returns boolean
language sql stable as $$
  select current_setting('max_prepared_transactions')::int > 0
    and coalesce(current_setting('gapless.wake', true), '') <> 'on'
$$;
