-- End the sessions that hold a lock of gapless without a right to it (lease/views/foreign_locks.sql); returns them, and
-- whether each could be ended: the schema's owner may need pg_signal_backend for it.
create or replace function gapless.end_foreign_locks() returns table (pid int, role text, holds text, is_ended boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  for pid, role, holds in select s.pid, s.role, s.holds from gapless.foreign_locks s loop
    begin
      is_ended := pg_terminate_backend(pid);
    exception
      when insufficient_privilege then
        is_ended := false;
    end;
    return next;
  end loop;
end
$$;
