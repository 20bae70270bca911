-- Claim as claim_events(), for a group with a filter (set_filter.sql), or of a topic with direct messages
-- (set_direct.sql): the range has at most batch_size matching events, to the end of the last unit (I5), and at most
-- scan_max events of the log; other events are passed with the range.
-- Returns the rows of claim_at(), then one per matching event with only its columns; none of these when more than
-- events_max match.
-- The first row of a claim has kept, kept_offsets (in offset order, of the whole range), filter_errors and matched
-- (kept_in.sql), and lost_id: an event of the range that is missing, so the range must not be passed (I3).
--   outcome 'unfiltered' the group has no filter: ask claim_events()
--   outcome 'filtered'   the filter was changed this moment: ask again
-- asks: the group has subscriptions with SQL conditions, so kept has the matches of the others: the caller evaluates
-- those conditions for all events of the range (ask_conditions.sql), reads the matches, and counts (tally_filter.sql);
-- a claim is then batch_size events of the log. Raises GL409 for such a group unless _asks says that the caller does
-- so. For a group that begins with the newest event of each key, the rows of claim_latest() until it has reached the
-- log. For a replay it looks no further than its stop_offset.
-- Before a hole it claims whole units; a unit with the hole is claimed so that lost_id shows it.
-- It counts matching and passed events (tally_filter.sql).
-- locks: as claim_at(), then the row of filter_tally. plan: as claim_events()
create or replace function gapless.claim_kept(
  _group_id text, _topic_id int, _partition_id int, _epoch bigint, _token uuid, _batch_size int,
  _events_max int, _place tid, _group_by text default 'transaction', _scan_max int default 10000,
  _asks boolean default false
) returns table (
  outcome text, first_offset bigint, last_offset bigint, claim_xid text, place_after tid,
  base_offset bigint, message_ids bigint[], unit_ends text, timeline int,
  kept bigint[], kept_offsets bigint[], filter_errors text[], lost_id bigint, matched text[], asks boolean,
  id bigint, key text, event_type text, payload json, headers jsonb, host_id text, user_id text,
  transaction_id uuid, xid xid8, created_ts timestamptz, cause text, correlation uuid
)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off as $$
#variable_conflict use_column
declare
  here record;    -- the group's place, and its filter, if it has one
  look record;
  at bigint;
  goal bigint;
  ready bigint;    -- the last end of a unit before a hole
  seen bigint;     -- looked at up to here
  most bigint;     -- look no further
  size int;
  ids bigint[] := '{}';
  offsets bigint[] := '{}';
  errors text[] := '{}';
  numbers text[] := '{}';
  begun bigint;
  ended bigint;
  is_asking boolean := false;
  low bigint;      -- of ids
  high bigint;
begin
  -- One statement: the filter and its number are of one moment.
  select c.next_offset, c.filter_no, c.stop_offset, c.latest_upto, f as filter,
    case when t.direct then coalesce(g.stands_for, c.group_id) end as to_group
  into here
  from gapless.consumer_offsets c
  join gapless.topic t on t.topic_id = c.topic_id
  join gapless.consumer_group g on g.group_id = c.group_id and g.topic_id = c.topic_id
  left join gapless.group_filter f
    on f.group_id = c.group_id and f.topic_id = c.topic_id and f.filter_no = c.filter_no
  where c.ctid = gapless.offset_row(_group_id, _topic_id, _partition_id, _place);
  if not found then
    outcome := 'unplaced';
    return next;
    return;
  end if;
  if here.next_offset < here.latest_upto then
    return query
    select l.* from gapless.claim_latest(
      _group_id, _topic_id, _partition_id, _epoch, _token, _batch_size, _events_max, _scan_max
    ) l;
    return;
  end if;
  if here.filter_no = 0 then
    outcome := 'unfiltered';
    return next;
    return;
  end if;

  if (here.filter).subscribed then    -- a look-up each: hours of them would be one claim
    _scan_max := least(_scan_max, greatest(_batch_size, 1000));
    if gapless.has_conditions(_group_id, _topic_id) then
      if not _asks then
        raise exception
          'group "%" has subscriptions with SQL conditions, of which this program knows nothing: bring it up to date',
          _group_id
          using errcode = 'GL409';
      end if;
      _scan_max := least(_batch_size, 1000);
    end if;
  end if;

  -- Slices that grow: with a filter that most events match, little is read in vain; with one that few match, few
  -- statements are needed.
  at := here.next_offset;
  most := greatest(at, least(at + _scan_max - 1, here.stop_offset - 1));
  size := least(greatest(_batch_size, 1), most - at + 1);
  loop
    select k.* into look
    from gapless.kept_in(_topic_id, _partition_id, at, at + size - 1, here.filter, here.to_group) k;
    ids := ids || look.kept;
    offsets := offsets || look.kept_offsets;
    errors := errors || coalesce(look.filter_errors, array_fill(null::text, array[cardinality(look.kept)]));
    numbers := numbers || look.matched;
    seen := look.upto;
    exit when seen < at + size - 1 or cardinality(ids) >= _batch_size
      or seen >= most;
    at := seen + 1;
    size := least(size * 4, most - at + 1);
  end loop;
  goal := greatest(here.next_offset, case
    when cardinality(ids) >= _batch_size then offsets[greatest(_batch_size, 1)]
    else seen
  end);
  if look.lost_offset is not null then
    ready := look.lost_offset - 1;
    if (gapless.unit_end(_topic_id, _partition_id, ready)).last_offset is distinct from ready then
      ready := gapless.unit_start(_topic_id, _partition_id, ready) - 1;
    end if;
    goal := greatest(here.next_offset, least(goal, ready));
  end if;

  for outcome, first_offset, last_offset, claim_xid, place_after, base_offset, message_ids, unit_ends,
    timeline
  in
    select a.*
    from gapless.claim_at(
      _group_id, _topic_id, _partition_id, _epoch, _token, (goal - here.next_offset + 1)::int, 0, _place,
      _group_by, here.filter_no
    ) a
  loop
    if outcome = 'claimed' and begun is null then
      begun := first_offset;
      ended := last_offset;
      if begun <> here.next_offset then    -- another session has moved the group since
        ids := '{}'; offsets := '{}'; errors := '{}'; numbers := '{}';
        seen := begun - 1;
      end if;
      if ended > seen then    -- the last unit ends behind the events looked at
        select k.* into look
        from gapless.kept_in(_topic_id, _partition_id, seen + 1, ended, here.filter, here.to_group) k;
        ids := ids || look.kept;
        offsets := offsets || look.kept_offsets;
        errors := errors || coalesce(look.filter_errors, array_fill(null::text, array[cardinality(look.kept)]));
        numbers := numbers || look.matched;
      end if;
      if look.lost_offset <= ended then
        lost_id := look.lost_id;
      end if;
      size := (select count(*) from unnest(offsets) o where o <= ended);
      kept := ids[1 : size];
      kept_offsets := offsets[1 : size];
      if (here.filter).subscribed then
        matched := numbers[1 : size];
        -- After the events were read: a younger condition does not apply to them.
        is_asking := gapless.has_conditions(_group_id, _topic_id);
        asks := is_asking;
      end if;
      if exists (select from unnest(errors[1 : size]) e where e is not null) then
        filter_errors := errors[1 : size];
      end if;
      if not is_asking then
        perform gapless.tally_filter(
          _group_id, _topic_id, _partition_id, here.filter_no, ended - begun + 1, kept_offsets, filter_errors
        );
      end if;
    end if;
    return next;
    kept := null; kept_offsets := null; filter_errors := null; lost_id := null; matched := null; asks := null;
  end loop;
  if begun is null or size = 0 or size > _events_max or is_asking then
    return;
  end if;
  ids := ids[1 : size];
  -- As claim_events().
  select min(i), max(i), set_config('plan_cache_mode', 'force_custom_plan', true) into low, high from unnest(ids) i;
  if gapless.is_in_default(ids) then
    return query
    select null::text, null::bigint, null::bigint, null::text, null::tid,
      null::bigint, null::bigint[], null::text, null::int, null::bigint[], null::bigint[], null::text[], null::bigint,
      null::text[], null::boolean,
      o.id, o.key, o.event_type, o.payload, o.headers, o.host_id, o.user_id,
      o.transaction_id, o.xid, o.created_ts, o.cause, o.correlation
    from gapless.events_of(ids) o;
    return;
  end if;
  return query
  select null::text, null::bigint, null::bigint, null::text, null::tid,
    null::bigint, null::bigint[], null::text, null::int, null::bigint[], null::bigint[], null::text[], null::bigint,
    null::text[], null::boolean,
    o.id, o.key, o.event_type, o.payload, o.headers, o.host_id, o.user_id,
    o.transaction_id, o.xid, o.created_ts, o.cause, o.correlation
  from gapless.outbox_message_t o
  where o.id between low and high and o.id = any ((select ids)::bigint[]);
end
$$;
