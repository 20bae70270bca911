-- Tell whether a sleeping sequencer has to look by itself, for nobody who publishes wakes it: NOTIFY would keep
-- them from PREPARE TRANSACTION, and whether it sleeps they cannot know.
create or replace function gapless.sequencer_polls()
returns boolean
language sql
stable
as $$
  select current_setting('max_prepared_transactions')::int > 0
    and coalesce(current_setting('gapless.wake', true), '') <> 'on'
$$;
