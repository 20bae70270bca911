-- Make the chunks of outbox_message_t that will be needed soon; returns how many were made.
-- A chunk is made as a plain table and attached: CREATE TABLE … PARTITION OF would take ACCESS
-- EXCLUSIVE on the parent and stop every publisher behind one open transaction.
-- locks: SHARE UPDATE EXCLUSIVE on the parent (nobody who reads or writes waits for it); ACCESS
--   EXCLUSIVE on the default chunk, for which it waits 100 ms at most, else the caller tries again;
--   before the first id of all SHARE ROW EXCLUSIVE on the parent, without waiting
create or replace function gapless.create_chunks()
returns int
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
set client_min_messages = warning
as $$
declare
  config gapless.log_config;
  next_id bigint;
  room bigint;
  covered bigint;      -- first id no chunk covers
  made int := 0;
  chunk text;
begin
  select * into config from gapless.log_config;
  -- Only one session makes chunks; the others have nothing to do.
  begin
    lock table gapless.guard_chunks in exclusive mode nowait;
  exception
    when lock_not_available then
      return 0;
  end;
  select coalesce(max(c.upto), 1) into covered from gapless.chunk c;
  select s.last_value + s.is_called::int into next_id from gapless.outbox_message_id_seq s;
  if next_id = 1 and covered = 1 then
    -- The first chunk leaves no room below it. So who is about to draw the first id MUST wait for the parent, which is
    -- locked before that, and not for the default chunk, for which it would have decided: it would fail.
    lock table only gapless.outbox_message_t in share row exclusive mode nowait;
    select s.last_value + s.is_called::int into next_id from gapless.outbox_message_id_seq s;
  end if;
  -- What no chunk covers goes to the default chunk, and stays there: start above it. MUST leave half a
  -- chunk of room: a publisher whose id is in flight to the default chunk fails when a new chunk takes
  -- that id, and what is there already makes ATTACH fail. (Before the first id nobody is in flight: locked out above.)
  room := config.chunk_events / 2;
  if next_id > 1 and next_id + room > covered then
    covered := ((next_id + room) / config.chunk_events + 1) * config.chunk_events;
  end if;
  while covered <= next_id + config.chunk_events * config.chunks_ahead loop
    chunk := 'outbox_message_' || covered;
    execute format(
      'create table gapless.%I (like gapless.outbox_message_t including defaults including constraints)',
      chunk
    );
    execute format(
      'alter table gapless.outbox_message_t attach partition gapless.%I for values from (%s) to (%s)',
      chunk, covered, (covered / config.chunk_events + 1) * config.chunk_events
    );
    covered := (covered / config.chunk_events + 1) * config.chunk_events;
    made := made + 1;
  end loop;
  return made;
end
$$;
