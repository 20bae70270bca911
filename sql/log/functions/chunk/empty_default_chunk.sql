-- Empty the default chunk, step by step: its events become chunks of their own. Does the next step, and returns whether
-- there was one. Each call is a transaction, may be made by any session at any time, and continues where another was
-- interrupted.
-- Raises 55P03 when another session has locked a table that it needs: try again later.
--
-- 1. Copy: a slice of the default chunk, of at most chunk_events rows, into a table of the slice's name. Only when the
--    slice is closed, as in close_chunks(): no event can come into it any more. No reader uses the copy yet.
-- 2. Note which transactions are open now that the copy is there.
-- 3. Once they have ended, and all of the default chunk is copied: truncate it, and attach the copies.
-- MUST NOT attach before: in a snapshot that is older than the copy its rows are not there yet, and those of the
-- default chunk would be gone.
-- Events that retention has dropped are not copied.
-- locks: guard_retention, guard_chunks; in step 3 ACCESS EXCLUSIVE on the default chunk, for which it waits 100 ms, and
--   SHARE UPDATE EXCLUSIVE on the parent (no reader or writer waits for it)
create or replace function gapless.empty_default_chunk() returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off set lock_timeout = '100ms' set client_min_messages = warning as $$
declare
  first_id bigint := gapless.next_to_copy();
  slice record;
  copy record;
begin
  perform gapless.require_read_committed('empty_default_chunk');
  if first_id is null and not exists (select from gapless.outbox_message_default) then
    return false;
  end if;
  begin
    lock table gapless.guard_retention, gapless.guard_chunks in exclusive mode nowait;
  exception
    when lock_not_available then
      return false;
  end;
  first_id := gapless.next_to_copy();    -- another session may have copied it since
  if first_id is not null then
    select * into slice from gapless.closed_slice(first_id);
    if slice.upto is null then
      return false;
    end if;
    create table if not exists gapless.default_wanted ();    -- see want_default_chunk()
    execute format(
      'create table gapless.%1$I (like gapless.outbox_message_t including defaults including constraints'
        ' including indexes, check (id >= %2$s and id < %3$s))',
      format('outbox_message_%s_%s', slice.from_id, slice.upto), slice.from_id, slice.upto
    );
    execute format(
      'insert into gapless.%I select * from gapless.outbox_message_t o where o.id >= %s and o.id < %s order by o.id',
      format('outbox_message_%s_%s', slice.from_id, slice.upto), slice.from_id, slice.upto
    );
    return true;
  end if;

  select c.chunk, string_agg(k.virtualxid, ' ') as beside into copy
  from gapless.chunk_copy c
  left join (
    select l.virtualxid from pg_locks l
    join pg_stat_activity a using (pid)
    where l.locktype = 'virtualxid' and l.mode = 'ExclusiveLock' and l.pid <> pg_backend_pid()
      and a.datname = current_database()
  ) k on true
  where c.beside is null
  group by c.chunk
  limit 1;
  if found then
    execute format('comment on table gapless.%I is %L', copy.chunk, 'beside ' || coalesce(copy.beside, ''));
    return true;
  end if;
  if exists (select from gapless.chunk_copy c join pg_locks l on l.virtualxid = any (c.beside)) then
    return false;
  end if;

  lock table gapless.outbox_message_default in access exclusive mode;
  -- MUST be looked at again: sessions that were publishing into it have committed.
  if gapless.next_to_copy() is not null then
    return false;
  end if;
  truncate gapless.outbox_message_default;
  drop table if exists gapless.default_wanted;
  -- Until now its events counted to the chunks behind it: those are closed anew, with these.
  update gapless.retention_state s
  set closed_upto = greatest(s.dropped_upto, least(s.closed_upto, (select min(c.from_id) from gapless.chunk_copy c)));
  delete from gapless.chunk_end e using gapless.retention_state s where e.upto > s.closed_upto;
  for copy in select * from gapless.chunk_copy c order by c.from_id loop
    execute format('comment on table gapless.%I is null', copy.chunk);
    execute format(
      'alter table gapless.outbox_message_t attach partition gapless.%I for values from (%s) to (%s)',
      copy.chunk, copy.from_id, copy.upto
    );
  end loop;
  return true;
end
$$;
