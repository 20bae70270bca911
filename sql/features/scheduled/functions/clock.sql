-- What time it is for events for later, for schedules and for deadlines of clients: the clock of the database's
-- machine. The one place where they ask for it, so that tests can put another one in its place.
create or replace function gapless.clock()
returns timestamptz
language sql
volatile
as $$
  select clock_timestamp()
$$;
