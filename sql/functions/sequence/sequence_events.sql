-- Give offsets to all events committed since the last run; returns how many, or null when another
-- session is sequencing right now. Events of a topic_id that nobody made get none: they are kept (I1) and
-- counted (gapless.unrouted), and get theirs in the first run that finds the topic (adopt_topic.sql).
--
-- Call it alone, in autocommit: it is one short transaction of its own. Safe to call from anywhere,
-- as often as you like; a run that finds nothing writes nothing, unless a chunk is complete by it: then
-- one moves the floor behind that chunk, or two, and the next ones write nothing.
--
-- How: the newest row of gapless.sequencer holds the snapshot of the last run. What that snapshot
-- could not see is what is pending: rows whose xid is at or above its xmax, or was in progress then.
-- MVCC itself hides what has not committed, so nothing is lost to a late commit (I1) and nothing of a
-- rolled-back transaction is seen (I2). Within a partition the order is (highest id of the row's
-- transaction, id): with the lowest id a transaction that committed before another one inserted
-- could come after it (I4).
--
-- A log that was restored into another cluster is prepared by rebase() first.
--
-- MUST stay one statement where it says so: under READ COMMITTED each statement has its own
-- snapshot, and the one that is stored must be the one that was read.
--
-- locks: guard_sequencing
-- plan: the settings below force index look-ups whatever the statistics say; a chunk that was never
--   analysed looks as if a third of it were pending, and a sequential scan wins.
--   The usual run, few ids above the floor, keeps its plans: to plan takes longer than to run. Any
--   index will do there; the others are planned for what they find.
create or replace function gapless.sequence_events()
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set jit = off
as $$
declare
  state gapless.sequencer;
  cluster bigint;
  xmax_seen xid8;
  in_progress xid8[];
  allocated bigint;     -- ids up to here were taken by transactions that already had an xid
  is_restored boolean;
  looks_back boolean;   -- events from before may get offsets: of a restored log, of an id that has a topic now
  is_pending boolean;
  sequenced bigint;
  timeline int;
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

  select * into strict state from gapless.sequencer s order by s.run desc limit 1;
  select c.system_identifier into cluster from pg_control_system() c;
  is_restored := state.system_identifier <> cluster
    or pg_snapshot_xmax(state.snapshot) > pg_snapshot_xmax(pg_current_snapshot());
  if (is_restored or state.run = 0) and gapless.is_overlaid() then
    raise exception 'the log was restored over the rows that gapless init had made: all would be handled again; %',
      'gapless uninstall, and restore the schema whole; or truncate its tables, and then '
      'pg_restore --data-only --disable-triggers'
      using errcode = 'GL409';
  end if;
  if is_restored and gapless.lacks_segments() then
    raise exception 'the log was restored without its segments: all would be handled again; %',
      'gapless uninstall, and restore the schema whole; or truncate its tables, and then '
      'pg_restore --data-only --disable-triggers'
      using errcode = 'GL409';
  end if;
  if is_restored then
    state := gapless.rebase(state);
  end if;
  select s.last_value - (not s.is_called)::int into allocated
  from gapless.outbox_message_id_seq s;
  xmax_seen := pg_snapshot_xmax(state.snapshot);
  in_progress := array(select pg_snapshot_xip(state.snapshot));
  looks_back := is_restored;
  if state.has_unrouted then
    looks_back := exists (select from gapless.unrouted u join gapless.topic t using (topic_id));
  end if;

  -- MUST stay bounded: a plan that was kept may use the primary key of a chunk that was empty then.
  if allocated - state.floor_id >= 2000 or state.stragglers <> '{}' or looks_back then
    perform set_config('plan_cache_mode', 'force_custom_plan', true);
  end if;

  -- Look first: an idle log costs no xid and no WAL. One after the other: each costs as much to
  -- begin as to run, and the first nearly always tells.
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
  if not is_pending and not gapless.floor_is_late(state, allocated) then
    return 0;
  end if;

  timeline := gapless.timeline();

  -- ONE statement, one snapshot, from here …
  with
  -- MUST be looked up here: whoever sees the topic routes its new events, and those before come first (I4).
  adopted as (
    delete from gapless.unrouted u
    using gapless.topic t
    where state.has_unrouted and u.topic_id = t.topic_id
    returning u.topic_id, u.first_id, u.last_id
  ),
  known as (    -- read only after a re-base
    select unnest(s.message_ids) as id from gapless.log_segment s
  ),
  pending as materialized (
    (
      select o.id, o.xid, o.topic_id, o.key, o.host_id, o.transaction_id, o.cause
      from gapless.outbox_message_t o
      where o.xid >= xmax_seen and o.id > state.floor_id
      order by o.xid
    )
    union all
    select o.id, o.xid, o.topic_id, o.key, o.host_id, o.transaction_id, o.cause
    from gapless.outbox_message_t o
    -- Only those that have ended: the rows of one that is still open would all be visited in vain.
    where o.xid = any (
        array(select x from unnest(in_progress) x where pg_visible_in_snapshot(x, pg_current_snapshot()))
      ) and o.id > state.floor_id
    union all
    select o.id, o.xid, o.topic_id, o.key, o.host_id, o.transaction_id, o.cause
    from gapless.outbox_message_t o
    where state.stragglers <> '{}' and o.xid = any (state.stragglers) and o.id <= state.floor_id
      and not exists (select from gapless.log_segment s where s.message_ids @> array[o.id])
    union all
    select o.id, o.xid, o.topic_id, o.key, o.host_id, o.transaction_id, o.cause
    from gapless.outbox_message_t o
    where is_restored and o.id <= state.floor_id and o.xid <> all (state.stragglers)
      and not exists (select from known k where k.id = o.id)
    union all
    -- What earlier runs saw and could not route. What they did not see is in one of the other parts.
    select o.id, o.xid, o.topic_id, o.key, o.host_id, o.transaction_id, o.cause
    from gapless.outbox_message_t o
    where state.has_unrouted
      and o.topic_id = any (array(select a.topic_id from adopted a))
      and o.id between (select min(a.first_id) from adopted a) and (select max(a.last_id) from adopted a)
      -- Up to the floor ids say it, for xids of a cluster that was restored from mean nothing.
      and (o.id <= state.floor_id or pg_visible_in_snapshot(o.xid, state.snapshot))
      and o.xid <> all (state.stragglers)
      and o.id not in (
        select unnest(s.message_ids) from gapless.log_segment s
        where s.topic_id in (select a.topic_id from adopted a)
      )
  ),
  strays as (
    select p.topic_id, count(*) as events, min(p.id) as first_id, max(p.id) as last_id,
      row_number() over (order by p.topic_id) as n
    from pending p
    where not exists (select from gapless.topic t where t.topic_id = p.topic_id)
    group by p.topic_id
  ),
  counted as (
    insert into gapless.unrouted as u (topic_id, events, first_id, last_id)
    select l.topic_id, sum(l.events), min(l.first_id), max(l.last_id)
    from (
      select s.events, s.first_id, s.last_id,
        case
          when exists (select from gapless.unrouted k where k.topic_id = s.topic_id)
            or s.n <= 100 - (select count(*) from gapless.unrouted)
          then s.topic_id
          else 0
        end as topic_id
      from strays s
    ) l
    group by l.topic_id
    on conflict (topic_id) do update
    set events = u.events + excluded.events,
      first_id = least(u.first_id, excluded.first_id),
      last_id = greatest(u.last_id, excluded.last_id)
    returning u.topic_id
  ),
  ranked as (
    select p.*, max(p.id) over (partition by p.xid) as last_id, false as is_old
    from pending p
    where p.id > state.restored_upto
    union all
    -- Their xids are of another cluster: who has one of them here is another transaction.
    select o.*, max(o.id) over (partition by o.xid), true
    from pending o
    where o.id <= state.restored_upto
  ),
  routed as (
    select
      r.topic_id,
      gapless.partition_of(
        gapless.order_key(r.key, r.host_id, r.transaction_id, r.xid), t.partitions
      ) as partition_id,
      r.last_id,
      r.id,
      r.xid,
      r.is_old,
      r.transaction_id,
      r.cause
    from ranked r
    join gapless.topic t using (topic_id)
  ),
  placed as (
    select
      r.topic_id,
      r.partition_id,
      r.id,
      row_number() over w - 1 as n,
      -- A unit is a run of neighbours of one publishing transaction, cut where their transaction_id or
      -- what they came of differs, and never gathered across others (I5, I10).
      (r.xid, r.transaction_id, r.cause) is distinct from
        (lead(r.xid) over w, lead(r.transaction_id) over w, lead(r.cause) over w)
        or r.is_old is distinct from lead(r.is_old) over w as ends_unit
    from routed r
    window w as (partition by r.topic_id, r.partition_id order by r.last_id, r.id)
  ),
  chains as (
    select
      p.topic_id,
      p.partition_id,
      p.n / 200 as link,
      array_agg(p.id order by p.n) as message_ids,
      string_agg(case when p.ends_unit then '1' else '0' end, '' order by p.n)::varbit as unit_ends
    from placed p
    group by p.topic_id, p.partition_id, p.n / 200
  ),
  -- MUST be looked up once a partition: what this statement inserts is in the index already, though not visible, and a
  -- look-up for each of a thousand segments would pass all before it.
  heads as materialized (
    select
      c.topic_id,
      c.partition_id,
      coalesce(
        (
          select s.last_offset from gapless.log_segment s
          where s.topic_id = c.topic_id and s.partition_id = c.partition_id
          order by s.base_offset desc limit 1
        ), 0
      ) as last_offset,
      (select t.layout from gapless.topic t where t.topic_id = c.topic_id) as layout
    from (select distinct topic_id, partition_id from chains) c
  ),
  segments as (
    insert into gapless.log_segment
      (topic_id, partition_id, base_offset, last_offset, message_ids, unit_ends, run, layout, timeline)
    select
      c.topic_id,
      c.partition_id,
      h.last_offset + 1 + c.link * 200,
      h.last_offset + c.link * 200 + cardinality(c.message_ids),
      c.message_ids,
      c.unit_ends,
      state.run + 1,
      h.layout,
      timeline
    from chains c
    join heads h using (topic_id, partition_id)
    returning topic_id, partition_id, cardinality(message_ids) as events
  ),
  grown as (
    select s.topic_id, s.partition_id, sum(s.events) as events
    from segments s
    group by s.topic_id, s.partition_id
  ),
  total as (
    select
      coalesce(sum(g.events), 0)::bigint as events,
      count(pg_notify('gapless_p_' || g.topic_id || '_' || g.partition_id, ''))
    from grown g
  ),
  own as (
    select pg_current_snapshot() as snapshot, pg_current_xact_id() as xid
  )
  insert into gapless.sequencer
    (run, system_identifier, snapshot, floor_id, stragglers, next_floor_id, next_floor_xid, events,
      has_unrouted, restored_upto)
  select
    state.run + 1,
    cluster,
    o.snapshot,
    case when f.raised then state.next_floor_id else state.floor_id end,
    array(select x from unnest(state.stragglers) x where not pg_visible_in_snapshot(x, o.snapshot)),
    -- Every id up to `allocated` belongs to an xid below ours (see the table's comment).
    case when f.raised then allocated else state.next_floor_id end,
    case when f.raised then o.xid else state.next_floor_xid end,
    t.events,
    exists (select from counted) or state.has_unrouted and exists (
      select from gapless.unrouted u where u.topic_id not in (select a.topic_id from adopted a)
    ),
    state.restored_upto
  from own o
  cross join total t
  cross join lateral (
    select pg_snapshot_xmin(o.snapshot) >= state.next_floor_xid as raised
  ) f
  returning events into sequenced;
  -- … to here.

  -- The newest row is all that is needed; keep some for people.
  if (state.run + 1) % 1000 = 0 then
    delete from gapless.sequencer s where s.run < state.run - 1000;
  end if;
  return sequenced;
end
$$;
