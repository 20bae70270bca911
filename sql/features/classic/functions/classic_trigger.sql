-- Return the state of the trigger that announces topics, as pg_trigger has it ('O' is enabled); null: it is gone.
create or replace function gapless.classic_trigger() returns "char"
language sql stable as $$
  select t.tgenabled from pg_trigger t
  where t.tgrelid = 'gapless.log_segment'::regclass and t.tgname = 'classic_notify'
$$;
