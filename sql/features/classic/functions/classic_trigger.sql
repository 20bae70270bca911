-- Whether the trigger that announces topics is there and enabled, as pg_trigger says it ('O'); null: it is gone.
create or replace function gapless.classic_trigger()
returns "char"
language sql
stable
as $$
  select t.tgenabled from pg_trigger t
  where t.tgrelid = 'gapless.log_segment'::regclass and t.tgname = 'classic_notify'
$$;
