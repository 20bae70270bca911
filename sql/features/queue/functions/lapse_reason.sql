-- Why an event is dead that nobody ever answered for, for people.
create or replace function gapless.lapse_reason(_tries int)
returns text
language sql
immutable
as $$
  select 'given out ' || _tries || ' times, and nobody answered for it: its worker died, or was too slow'
$$;
