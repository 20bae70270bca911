-- Return the due times that have their events, as far as a schedule remembers them: those before a gap, and those since
-- the last gap.
create or replace function gapless.fired_dues(_schedule gapless.schedule) returns tstzmultirange
language sql immutable as $$
  select (_schedule).ahead + case
    when (_schedule).jumped_ts > (_schedule).last_due or (_schedule).last_due is null then '{}'
    else tstzmultirange(tstzrange((_schedule).jumped_ts, (_schedule).last_due, '[]'))
  end
$$;
