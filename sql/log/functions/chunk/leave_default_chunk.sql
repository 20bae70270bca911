-- Let the next event go to a chunk, if one lies above the next id, by drawing the ids that have no chunk. Otherwise the
-- default chunk would take the events up to that chunk, and could not be closed before. Ids need not be neighbours.
-- Returns the number of drawn ids.
-- MUST draw them one by one: setval() would put the sequence back when other sessions were faster. MUST wait until all
-- publishers have ended: a statement that began before the chunk was there sends its next rows to the default chunk,
-- and would fail when their ids are the chunk's. So it locks the table for a moment, at most 100 ms; else nothing is
-- drawn.
create or replace function gapless.leave_default_chunk() returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'    -- to look at a chunk that is being dropped waits for it
as $$
declare
  ids_max constant bigint := 12000000;    -- seconds
  next_id bigint;
  from_id bigint;
  drawn bigint;
begin
  begin
    lock table gapless.guard_chunks in exclusive mode nowait;
  exception
    when lock_not_available then
      return 0;
  end;
  select s.last_value + s.is_called::int into next_id from gapless.outbox_message_id_seq s;
  select min(greatest(c.from_id, next_id)) into from_id from gapless.chunk c where c.upto > next_id;
  if from_id - next_id not between 1 and ids_max then
    return 0;
  end if;
  begin
    lock table only gapless.outbox_message_t in share mode;
    raise exception using errcode = 'GL000';    -- and is free again: new publishers know the chunk
  exception
    when sqlstate 'GL000' then
      null;
    when lock_not_available then
      return 0;
  end;
  select count(nextval('gapless.outbox_message_id_seq')) into drawn from generate_series(next_id, from_id - 1);
  return drawn;
end
$$;
