-- Give offsets to all events committed since the last run; returns their number, or null when another session is
-- sequencing right now. Events of an unknown topic_id get none: they are kept (I1) and counted (gapless.unrouted), and
-- get theirs in the first run that finds the topic (adopt_topic.sql).
--
-- Call it alone, in autocommit: it is one short transaction of its own. It may be called by any session, at any time; a
-- run that finds no event writes nothing, unless it completes a chunk: then one or two runs move the floor behind that
-- chunk, and the next ones write nothing.
--
-- How: the newest row of gapless.sequencer holds the snapshot of the last run. Events that this snapshot could not see
-- are pending: rows whose xid is at or above its xmax, or was in progress then. MVCC itself hides uncommitted rows, so
-- a late commit loses nothing (I1), and a rolled-back transaction is never seen (I2). Within a partition the order is
-- (highest id of the row's transaction, id): with the lowest id, a transaction that committed before another one
-- inserted could come after it (I4).
--
-- For a log that was restored into another cluster, rebase() runs first.
--
-- MUST store the snapshot with which the events were read: sequence_few() and sequence_many() return it.
--
-- locks: guard_sequencing
-- plan: the settings below force index look-ups whatever the statistics say; a chunk that was never
--   analysed looks as if a third of it were pending, and a sequential scan wins.
--   The usual run, few ids above the floor, keeps its plans: to plan takes longer than to run. Any
--   index will do there; the others are planned for their results.
create or replace function gapless.sequence_events() returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set jit = off as $$
declare
  state gapless.sequencer;
  cluster bigint;
  xmax_seen xid8;
  in_progress xid8[];
  allocated bigint;     -- ids up to here belong to transactions that already had an xid
  is_restored boolean;
  looks_back boolean;   -- earlier events may get offsets: of a restored log, of an id that has a topic now
  is_pending boolean;
  sequenced bigint;
  seen pg_snapshot;
  has_unrouted boolean := false;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'gapless.sequence_events() needs READ COMMITTED, not %: an older snapshot would miss events',
      upper(current_setting('transaction_isolation'))
      using errcode = 'invalid_transaction_state';
  end if;
  if pg_current_xact_id_if_assigned() is not null then
    raise exception 'gapless.sequence_events() must run in a transaction of its own: this one has already written'
      using errcode = 'invalid_transaction_state';
  end if;
  begin
    lock table gapless.guard_sequencing in exclusive mode nowait;
  exception
    when lock_not_available then
      return null;
  end;

  select * into state from gapless.sequencer s order by s.run desc limit 1;
  select c.system_identifier into cluster from pg_control_system() c;
  is_restored := state.run is null or state.system_identifier <> cluster
    or pg_snapshot_xmax(state.snapshot) > pg_snapshot_xmax(pg_current_snapshot());
  if (is_restored or state.run = 0) and gapless.is_overlaid() then
    raise exception 'the log was restored over the rows that gapless init had made: all would be handled again; %',
      'gapless uninstall, and restore the schema whole; or truncate its tables, and then '
      'pg_restore --data-only --disable-triggers'
      using errcode = 'GL409';
  end if;
  if is_restored then
    if gapless.lost_rows() is not null then
      raise exception 'the log was restored without rows of %: events would be lost, or handled again; %',
        gapless.lost_rows(),
        'gapless uninstall, and restore the schema whole; or truncate its tables, and then '
        'pg_restore --data-only --disable-triggers'
        using errcode = 'GL409';
    end if;
    state := gapless.rebase(state);
  end if;
  select s.last_value - (not s.is_called)::int into allocated
  from gapless.outbox_message_id_seq s;
  looks_back := is_restored;
  if state.has_unrouted then
    looks_back := exists (select from gapless.unrouted u join gapless.topic t using (topic_id));
  end if;

  -- After many events the next ones are seldom few.
  if state.events <= 64 and not looks_back and not state.has_unrouted and state.stragglers = '{}'
    and allocated - state.floor_id < 2000 and state.restored_upto <= state.floor_id
  then
    select f.sequenced, f.seen into sequenced, seen from gapless.sequence_few(state) f;
    is_pending := sequenced > 0;
  end if;
  if sequenced is null then
    xmax_seen := pg_snapshot_xmax(state.snapshot);
    in_progress := array(select pg_snapshot_xip(state.snapshot));
    -- MUST stay bounded: a plan that was kept may use the primary key of a chunk that was empty then.
    if allocated - state.floor_id >= 2000 or state.stragglers <> '{}' or looks_back then
      perform set_config('plan_cache_mode', 'force_custom_plan', true);
    end if;

    -- Look first: an idle log costs no xid and no WAL. One after the other: each costs as much to begin as to run, and
    -- the first nearly always decides.
    is_pending := looks_back or exists (
      select from gapless.outbox_message_t o
      where o.xid >= xmax_seen and o.id > state.floor_id
      order by o.xid limit 1
    );
    if not is_pending and in_progress <> '{}' then
      is_pending := exists (
        select from gapless.outbox_message_t o
        where o.xid = any (
            array(select x from unnest(in_progress) x where pg_visible_in_snapshot(x, pg_current_snapshot()))
          ) and o.id > state.floor_id
      );
    end if;
    if not is_pending and state.stragglers <> '{}' then
      is_pending := exists (
        select from gapless.outbox_message_t o
        where o.xid = any (state.stragglers) and o.id <= state.floor_id
          and not exists (select from gapless.log_segment s where s.message_ids @> array[o.id])
      );
    end if;
  end if;
  if not is_pending and not gapless.floor_is_late(state, allocated) then
    return 0;
  end if;
  if sequenced is null then
    select m.sequenced, m.seen, m.has_unrouted into sequenced, seen, has_unrouted
    from gapless.sequence_many(state, is_restored) m;
  end if;

  insert into gapless.sequencer
    (run, system_identifier, snapshot, floor_id, stragglers, next_floor_id, next_floor_xid, events,
      has_unrouted, restored_upto)
  select
    state.run + 1,
    cluster,
    seen,
    case when f.raised then state.next_floor_id else state.floor_id end,
    array(select x from unnest(state.stragglers) x where not pg_visible_in_snapshot(x, seen)),
    -- Every id up to `allocated` belongs to an xid below ours (see the table's comment).
    case when f.raised then allocated else state.next_floor_id end,
    case when f.raised then pg_current_xact_id() else state.next_floor_xid end,
    sequenced,
    has_unrouted,
    state.restored_upto
  from (select pg_snapshot_xmin(seen) >= state.next_floor_xid as raised) f;

  -- Only the newest row is needed; the others are for people.
  if (state.run + 1) % 1000 = 0 then
    delete from gapless.sequencer s where s.run < state.run - 1000;
  end if;
  return sequenced;
end
$$;
