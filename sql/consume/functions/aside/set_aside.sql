-- Put a unit aside, in the caller's transaction, which also moves the group's offset past it (I9). message_ids are its
-- events in offset order, the first of them at first_offset. The payloads are copied inside the server. Returns how
-- many events were written; the caller treats fewer than requested as an error.
--   state 'waiting'  to be handled again once retry_after has passed
--   state 'parked'   waits behind an earlier unit that touches one of its keys; see settle_parked()
--   state 'dead'     waits for a person
-- parks: later units that touch one of its keys are to be parked behind it, until it is handled or
-- discarded, dead or not. A parked unit always parks.
-- kept: the offsets of the events that its handler saw, where a filter passed the others; null: all.
-- matched: for each of these, the numbers of its subscriptions, with commas between; null: the group has none.
create or replace function gapless.set_aside(
  _group_id text, _topic_id int, _partition_id int, _first_offset bigint, _message_ids bigint[],
  _state text, _reason text, _exception text,
  _exception_class text default null, _sqlstate text default null, _attempts int default 1,
  _retry_after interval default null, _parks boolean default false,
  _worker text default null, _duration_ms double precision default null, _kept bigint[] default null,
  _matched text[] default null
) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set plan_cache_mode = force_custom_plan
set jit = off as $$
declare
  now_ts timestamptz := clock_timestamp();
  -- Of its segment: whenever the unit is handled again, it has the same key (timeline.sql).
  timeline int := coalesce(gapless.timeline_at(_topic_id, _partition_id, _first_offset), (
    select b.timeline from gapless.events_beside b
    where b.topic_id = _topic_id and b.partition_id = _partition_id and b.c_offset = _first_offset
  ));
  holds boolean := _parks or _state = 'parked';
  -- Known when it is planned: other chunks, and the default one, are not locked.
  low bigint := (select min(i) from unnest(_message_ids) i);
  high bigint := (select max(i) from unnest(_message_ids) i);
  written int;
begin
  if gapless.is_in_default(_message_ids) then
    low := null;    -- each by events_of()
  end if;
  insert into gapless.dead_letter_event as e (
    group_id, topic_id, partition_id, c_offset, first_offset, message_id, host_id, user_id, key,
    transaction_id, event_type, payload, headers, created_ts, cause, correlation,
    is_kept, subscriptions
  )
  select
    _group_id, _topic_id, _partition_id,
    _first_offset + u.n - 1, _first_offset, o.id, o.host_id, o.user_id, o.key,
    coalesce(o.transaction_id, gapless.transaction_uuid(o.xid, timeline)),
    o.event_type, o.payload, o.headers, o.created_ts, o.cause, o.correlation,
    _kept is null or _first_offset + u.n - 1 = any (_kept),
    string_to_array(nullif(_matched[array_position(_kept, _first_offset + u.n - 1)], ''), ',')::bigint[]
  from unnest(_message_ids) with ordinality as u (id, n)
  -- LIMIT: one look-up an id; a join may read all rows between the first id and the last.
  cross join lateral (
    select m.id, m.host_id, m.user_id, m.key, m.transaction_id, m.xid, m.event_type, m.payload, m.headers,
      m.created_ts, m.cause, m.correlation
    from gapless.outbox_message_t m where m.id = u.id and m.id between low and high
    union all
    select m.id, m.host_id, m.user_id, m.key, m.transaction_id, m.xid, m.event_type, m.payload, m.headers,
      m.created_ts, m.cause, m.correlation
    from gapless.events_of(array[u.id]) m where low is null
    union all    -- asked only if the log has it no more
    select b.id, b.host_id, b.user_id, b.key, b.transaction_id, b.xid, b.event_type, b.payload, b.headers,
      b.created_ts, b.cause, b.correlation
    from gapless.events_beside b where b.id = u.id
    limit 1
  ) o
  on conflict on constraint dead_letter_event_pkey do update
  set first_offset = excluded.first_offset, is_kept = excluded.is_kept, subscriptions = excluded.subscriptions;
  get diagnostics written = row_count;
  if written <> cardinality(_message_ids) then
    perform gapless.refuse_dropped(_message_ids);
    raise exception 'dead letters of % %-%: % of % events found',
      _group_id, _topic_id, _partition_id,
      written, cardinality(_message_ids);
  end if;

  insert into gapless.dead_letter as d (
    group_id, topic_id, partition_id, first_offset, last_offset, events, transaction_id, state,
    parks, attempts, next_attempt_ts, reason, exception, exception_class, sqlstate, worker,
    duration_ms, first_failed_ts, last_failed_ts, died_ts, timeline
  )
  select
    e.group_id, e.topic_id, e.partition_id, e.first_offset, e.first_offset + written - 1, written,
    e.transaction_id, _state, holds, _attempts,
    case when _state = 'waiting' then now_ts + coalesce(_retry_after, '0 s') end,
    _reason, _exception, _exception_class, _sqlstate,
    _worker, _duration_ms, now_ts, now_ts,
    case when _state = 'dead' then now_ts end, timeline
  from gapless.dead_letter_event e
  where e.group_id = _group_id and e.topic_id = _topic_id
    and e.partition_id = _partition_id and e.c_offset = _first_offset
  -- A group that was moved back meets its old dead letters again.
  on conflict on constraint dead_letter_pkey do update
  set last_offset = excluded.last_offset, events = excluded.events, state = excluded.state,
    parks = excluded.parks, attempts = d.attempts + excluded.attempts, crashes = 0,
    next_attempt_ts = excluded.next_attempt_ts, reason = excluded.reason,
    exception = excluded.exception, exception_class = excluded.exception_class,
    sqlstate = excluded.sqlstate, worker = excluded.worker, duration_ms = excluded.duration_ms,
    last_failed_ts = excluded.last_failed_ts, died_ts = excluded.died_ts,
    timeline = excluded.timeline,
    closed_ts = null, discarded_by = null, discard_reason = null;

  delete from gapless.dead_letter_key k
  where k.group_id = _group_id and k.topic_id = _topic_id
    and k.partition_id = _partition_id and k.first_offset = _first_offset;
  if holds then
    insert into gapless.dead_letter_key (group_id, topic_id, partition_id, key_digest, first_offset)
    select _group_id, _topic_id, _partition_id, k.key_digest, _first_offset
    from gapless.unit_keys(
      _group_id, _topic_id, _partition_id, _message_ids, array_fill(_first_offset, array[written])
    ) k;
  end if;
  return written;
end
$$;
