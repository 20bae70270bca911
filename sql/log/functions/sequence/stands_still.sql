-- Return the newest run of the sequencer if committed events wait for the next one and no session is sequencing; else
-- null. It writes nothing. An active sequencer leaves no event waiting for longer than a moment.
create or replace function gapless.stands_still() returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if not gapless.pending() then
    return null;
  end if;
  if exists (
    select from pg_locks k
    where k.locktype = 'relation' and k.relation = 'gapless.guard_sequencing'::regclass
      and k.mode = 'ExclusiveLock' and k.granted
      and k.database = (select d.oid from pg_database d where d.datname = current_database())
  ) then
    return null;
  end if;
  return (select s.run from gapless.sequencer s order by s.run desc limit 1);
end
$$;
