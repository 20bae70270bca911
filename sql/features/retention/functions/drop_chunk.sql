-- Drop the chunks that retention_plan() releases, step by step; each function here is a transaction of its own, may be
-- called by any session at any time, and continues where another one was interrupted.
--
-- A chunk is emptied by TRUNCATE, which locks the chunk alone: its room is free at once, whatever transaction is open
-- elsewhere. The empty table is taken out of outbox_message_t later, at a moment when no session has that locked. Not
-- by DETACH … CONCURRENTLY: PostgreSQL refuses that while there is a default chunk, and the default chunk keeps a
-- publisher from failing (create_chunks.sql).

-- Drop the events of the oldest chunk, if it may go; returns its name, or null when none may.
-- Raises 55P03 (lock_not_available) when a reader has it locked: try again later.
-- locks: guard_retention; the topics, so that no group is put before the new beginning at the
--   same time (hold_start); ACCESS EXCLUSIVE on the chunk
create or replace function gapless.drop_chunk() returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms' as $$
declare
  oldest record;
begin
  perform gapless.require_read_committed('drop_chunk');
  begin
    lock table gapless.guard_retention in exclusive mode nowait;
  exception
    when lock_not_available then
      return null;
  end;
  perform gapless.look_at_clock();
  -- A time from a clock that was ahead counts from now on.
  update gapless.chunk_end e set newest_ts = clock_timestamp() where e.newest_ts > clock_timestamp();
  -- Look first, then lock.
  if (select p.goes from gapless.retention_plan() p order by p.upto limit 1) is not true then
    return null;
  end if;
  perform from gapless.topic t order by t.topic_id for no key update;
  -- MUST be looked at again: the session that held the topics has committed.
  select * into oldest from gapless.retention_plan() p order by p.upto limit 1;
  if oldest.goes is not true then
    return null;
  end if;
  insert into gapless.log_start (topic_id, partition_id, first_offset, newest_ts)
  select e.topic_id, e.partition_id, e.next_offset, e.newest_ts
  from gapless.chunk_end e where e.upto = oldest.upto
  on conflict (topic_id, partition_id) do update
    set first_offset = excluded.first_offset, newest_ts = excluded.newest_ts
    where log_start.first_offset < excluded.first_offset;
  delete from gapless.chunk_end e where e.upto = oldest.upto;
  update gapless.retention_state set dropped_upto = oldest.upto;
  execute format('truncate gapless.%I', oldest.chunk);
  return oldest.chunk;
end
$$;
