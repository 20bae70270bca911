-- Explain to people why an event that was never answered for is dead.
create or replace function gapless.lapse_reason(_tries int) returns text
language sql immutable as $$
  select 'given out ' || _tries || ' times without an answer: its worker died, or was too slow'
$$;
