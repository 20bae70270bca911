-- Drop what retention_plan() says may go, step by step; each function here is a transaction of its own,
-- may be called by anybody at any time, and goes on where another one was interrupted.
--
-- A chunk is emptied by TRUNCATE, which locks the chunk alone: its room is free at once, whatever
-- transaction is open elsewhere. The empty table is taken out of outbox_message_t later, at a moment
-- when nobody has that locked. Not by DETACH … CONCURRENTLY: PostgreSQL refuses that while there is a
-- default chunk, and the default chunk is what keeps a publisher from failing (create_chunks.sql).

-- Drop the events of the oldest chunk, if it may go; returns its name, or null when none may.
-- Raises 55P03 (lock_not_available) when a reader has it locked: try again later.
-- locks: guard_retention; the topics, so that no group is put before the new beginning at the
--   same time (hold_start); ACCESS EXCLUSIVE on the chunk
create or replace function gapless.drop_chunk()
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
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
  -- Look first, then lock.
  if (select p.goes from gapless.retention_plan() p order by p.upto limit 1) is not true then
    return null;
  end if;
  perform from gapless.topic t order by t.topic_id for no key update;
  -- MUST be looked at again: what holds the topics now has committed.
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

-- Let retention wait until this transaction is over: it puts a group to a place in this topic, which
-- MUST not be dropped between the look and the commit.
create or replace function gapless.hold_start(topic_ids int[])
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select from gapless.topic t where t.topic_id = any (hold_start.topic_ids)
  order by t.topic_id
  for share
$$;

-- Forget segments whose events are gone, segments_max of them; returns how many, 0 when there is none.
-- The last one of a partition stays: it says which offset comes next (I3). So does one with an event
-- that is there still, in a later chunk or in the default one: to a re-base, an event that stands in no
-- segment is one that has no offset yet.
create or replace function gapless.forget_segments(segments_max int default 10000)
returns int
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
  gone_upto bigint;      -- events with ids below are gone
  part record;
  here int;
  forgotten int := 0;
begin
  select least(s.dropped_upto, (select min(o.id) from gapless.outbox_message_default o))
  into gone_upto from gapless.retention_state s;
  for part in
    select l.*, gapless.last_base(l.topic_id, l.partition_id) as last_base from gapless.log_start l
  loop
    delete from gapless.log_segment d
    where (d.topic_id, d.partition_id, d.base_offset) in (
      select s.topic_id, s.partition_id, s.base_offset
      from gapless.log_segment s
      where s.topic_id = part.topic_id and s.partition_id = part.partition_id
        and s.base_offset < least(part.first_offset, part.last_base)
        and s.last_offset < part.first_offset
        and (select max(i) from unnest(s.message_ids) i) < gone_upto
      limit forget_segments.segments_max - forgotten
    );
    get diagnostics here = row_count;
    forgotten := forgotten + here;
    exit when forgotten >= forget_segments.segments_max;
  end loop;
  return forgotten;
end
$$;

-- The base_offset of the newest segment of a partition.
create or replace function gapless.last_base(topic_id int, partition_id int)
returns bigint
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select s.base_offset from gapless.log_segment s
  where s.topic_id = last_base.topic_id and s.partition_id = last_base.partition_id
  order by s.base_offset desc limit 1
$$;

-- Empty the default chunk once all that is in it is dropped; returns whether it was done.
-- Raises 55P03 when somebody has it locked.
create or replace function gapless.empty_default_chunk()
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
  gone_upto bigint := (select s.dropped_upto from gapless.retention_state s);
begin
  perform gapless.require_read_committed('empty_default_chunk');
  if (select max(o.id) < gone_upto from gapless.outbox_message_default o) is not true then
    return false;
  end if;
  lock table gapless.outbox_message_default in access exclusive mode;
  -- MUST be looked at again: whoever was publishing into it has committed.
  if (select max(o.id) < gone_upto from gapless.outbox_message_default o) is not true then
    return false;
  end if;
  truncate gapless.outbox_message_default;
  return true;
end
$$;

-- Take emptied chunks out of the table; returns how many. Needs the whole table for a moment, and raises
-- 55P03 when that cannot be had. Without patience it does not wait at all; with it, 20 ms for each of
-- them and 1 s at most, in which publishers wait, too: the longer it did not succeed, the more it is
-- worth. Not while a transaction that uses the log is older than that: it would wait in vain.
create or replace function gapless.drop_emptied_chunks(patient boolean default false)
returns int
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set client_min_messages = warning
set lock_timeout = '100ms'    -- to look at a chunk that is being dropped waits for it
as $$
declare
  emptied text[];
  each text;
begin
  select array_agg(c.chunk order by c.upto) into emptied
  from gapless.chunk c, gapless.retention_state s
  where c.upto <= s.dropped_upto;
  if emptied is null then
    return 0;
  end if;
  if patient and not gapless.is_in_long_use() then
    perform set_config('lock_timeout', least(20 * cardinality(emptied), 1000) || 'ms', true);
    lock table gapless.outbox_message_t in access exclusive mode;
  else
    lock table gapless.outbox_message_t in access exclusive mode nowait;
  end if;
  foreach each in array emptied loop
    execute format('drop table if exists gapless.%I', each);
  end loop;
  return cardinality(emptied);
end
$$;

-- Has a transaction that is older than a second the log locked? Of other roles' transactions only
-- those with pg_read_all_stats see the age.
create or replace function gapless.is_in_long_use()
returns boolean
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select exists (
    select from pg_locks k
    left join pg_stat_activity a using (pid)
    where k.relation = 'gapless.outbox_message_t'::regclass
      and k.database = (select d.oid from pg_database d where d.datname = current_database())
      -- One that was prepared has no session.
      and (a.pid is null or a.xact_start < clock_timestamp() - interval '1 s')
  )
$$;
