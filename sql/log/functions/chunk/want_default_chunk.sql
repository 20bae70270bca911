-- Make readers of the default chunk release it at once (is_in_default.sql), from now on until it is empty; for a
-- session that could not lock it. A table without rows or columns is the mark: its name is looked up without a lock,
-- and from the copies on (empty_default_chunk.sql) no transaction is open that has not seen it.
-- Does nothing when the default chunk is empty. Raises 55P03 as create_chunks().
create or replace function gapless.want_default_chunk() returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms' set client_min_messages = warning as $$
begin
  if to_regclass('gapless.default_wanted') is null and exists (select from gapless.outbox_message_default) then
    lock table gapless.guard_chunks in exclusive mode nowait;
    create table if not exists gapless.default_wanted ();
  end if;
end
$$;
