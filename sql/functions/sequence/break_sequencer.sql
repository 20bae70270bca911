-- The newest run of the sequencer if committed events wait for the next one and nobody is at it; else
-- null. Looks, writes nothing. An active sequencer leaves nothing lying for longer than a moment.
create or replace function gapless.stands_still()
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
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

-- End the session that has the sequencer's role, lock (7427001, 3), if the log still stands still at
-- that run: its process was stopped, or its machine is cut off, and its lock keeps all others out (I8).
create or replace function gapless.break_sequencer(run bigint)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if gapless.stands_still() is distinct from break_sequencer.run then
    return false;
  end if;
  return coalesce(
    (
      select bool_or(pg_terminate_backend(k.pid))
      from pg_locks k
      where k.locktype = 'advisory' and k.classid = 7427001::oid and k.objid = 3::oid
        and k.objsubid = 2 and k.granted and k.pid <> pg_backend_pid()
        and k.database = (select d.oid from pg_database d where d.datname = current_database())
    ), false);
end
$$;
