-- Return the present time for scheduled events, for schedules and for deadlines of clients: the clock of the database's
-- machine. They ask only here, so that tests can replace it.
create or replace function gapless.clock() returns timestamptz
language sql volatile as $$
  select clock_timestamp()
$$;
