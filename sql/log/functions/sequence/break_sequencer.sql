-- End the session that has the sequencer's role, lock (7427001, 3), if the log still stands still at that run: its
-- process was stopped, or its machine is cut off, and its lock keeps all others out (I8).
create or replace function gapless.break_sequencer(_run bigint) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if gapless.stands_still() is distinct from _run then
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
