-- Return the time before which no attempt is kept.
create or replace function gapless.attempts_since() returns timestamptz
language sql stable as $$
  select now() - interval '24 hours'
$$;
