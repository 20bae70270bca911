-- Create the chunks of outbox_message_t that will be needed soon; returns their number.
-- A chunk is created as a plain table and attached: CREATE TABLE … PARTITION OF would take ACCESS EXCLUSIVE on the
-- parent and stop every publisher behind one open transaction.
--
-- Events without a chunk go to the default chunk, and new chunks begin above them. MUST leave room: a publisher with an
-- id above the last chunk is on its way to the default chunk, and would fail if a new chunk took that id. Such ids are
-- drawn while the default chunk is locked, too: half of the room has to be left at the end, else it begins anew with
-- more. (Before the first id no publisher is on its way: they are locked out.) leave_default_chunk() then draws the
-- remaining ids.
-- Raises 55P03 when another session has locked a table that it needs: try again later.
-- locks: SHARE UPDATE EXCLUSIVE on the parent (no reader or writer waits for it); ACCESS EXCLUSIVE on the default
--   chunk, for which it waits 100 ms at most. 1 s when events go there already, for their handlers hold it, unless a
--   session has had it for as long and it would wait in vain; before the first id of all SHARE ROW EXCLUSIVE on the
--   parent, without waiting
create or replace function gapless.create_chunks() returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms' set client_min_messages = warning as $$
declare
  config gapless.log_config;
  next_id bigint;
  room bigint;
  covered bigint;      -- the first id without a chunk
  first_id bigint;     -- of the new chunks
  bound bigint;
  made int;
  chunk text;
begin
  select * into config from gapless.log_config;
  -- One session at a time creates chunks; the others have nothing to do.
  begin
    lock table gapless.guard_chunks in exclusive mode nowait;
  exception
    when lock_not_available then
      return 0;
  end;
  select coalesce(max(c.upto), 1) into covered from gapless.chunk c;
  select s.last_value + s.is_called::int into next_id from gapless.outbox_message_id_seq s;
  if covered > next_id + config.chunk_events * config.chunks_ahead then
    return 0;
  end if;
  if next_id = 1 and covered = 1 then
    -- The first chunk leaves no room below it. So a publisher that is about to draw the first id MUST wait for the
    -- parent, which is locked before that, and not for the default chunk, for which it would have decided: it would
    -- fail.
    lock table only gapless.outbox_message_t in share row exclusive mode nowait;
  end if;
  if next_id > covered and not exists (
    select from pg_locks k
    left join pg_stat_activity a using (pid)
    where k.relation = 'gapless.outbox_message_default'::regclass
      and k.database = (select d.oid from pg_database d where d.datname = current_database())
      -- A prepared one has no session.
      and (a.pid is null or a.xact_start < clock_timestamp() - interval '1 s')
  ) then
    perform set_config('lock_timeout', '1s', true);
  end if;
  lock table gapless.outbox_message_default in access exclusive mode;
  room := least(config.chunk_events / 2, 500000);
  loop
    begin
      select s.last_value + s.is_called::int into next_id from gapless.outbox_message_id_seq s;
      first_id := case when next_id > 1 and next_id + room > covered then next_id + room else covered end;
      bound := first_id;
      made := 0;
      while bound <= next_id + config.chunk_events * config.chunks_ahead loop
        chunk := 'outbox_message_' || bound;
        execute format(
          'create table gapless.%I (like gapless.outbox_message_t including defaults including constraints)',
          chunk
        );
        execute format(
          'alter table gapless.outbox_message_t attach partition gapless.%I for values from (%s) to (%s)',
          chunk, bound, (bound / config.chunk_events + 1) * config.chunk_events
        );
        bound := (bound / config.chunk_events + 1) * config.chunk_events;
        made := made + 1;
      end loop;
      if first_id = 1 or (select s.last_value + room / 2 < first_id from gapless.outbox_message_id_seq s) then
        return made;
      end if;
      raise exception 'ids are drawn too fast for a chunk' using errcode = 'lock_not_available';
    exception
      when lock_not_available then
        room := room * 16;
        if room > 10000000 then
          raise;
        end if;
    end;
  end loop;
end
$$;
