-- Claim, as a part of claim_kept(), for a group that began with the newest event of each key, and has not reached the
-- log yet: offsets from its next_offset on, below latest_upto, that hold at most batch_size rows of latest and are at
-- most scan_max offsets. Returns them as claim_kept() does: each row a unit of its own, at its own offset; the offsets
-- between them are passed, like events that a filter does not match. From latest_upto on the group reads the log.
--
-- No gap, no doubles: when the group was created (add_partitions.sql), latest held the newest event of each key among
-- all events below latest_upto. Since then a row below it can only go: an event at or above latest_upto in the log, or
-- behind a barrier (blockers.sql), replaced or removed it, and the group handles that event after this. So an event
-- that is read here is never older than one of the same key that the group has handled, and a missing event comes from
-- the log. A filter of the group is applied to each row.
--   outcome 'filtered' something changed this moment: ask again
-- locks: the consumer_offsets row until the transaction ends
create or replace function gapless.claim_latest(
  _group_id text, _topic_id int, _partition_id int, _epoch bigint, _token uuid, _batch_size int, _events_max int,
  _scan_max int
) returns table (
  outcome text, first_offset bigint, last_offset bigint, claim_xid text, place_after tid,
  base_offset bigint, message_ids bigint[], unit_ends text, timeline int,
  kept bigint[], kept_offsets bigint[], filter_errors text[], lost_id bigint, matched text[], asks boolean,
  id bigint, key text, event_type text, payload json, headers jsonb, host_id text, user_id text,
  transaction_id uuid, xid xid8, created_ts timestamptz, cause text, correlation uuid
)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set plan_cache_mode = force_custom_plan set jit = off as $$
#variable_conflict use_column
declare
  here record;
  held gapless.latest[];
  each gapless.latest;
  verdicts text[];    -- of each row: null, it does not match; else '', or why the filter could not be evaluated
  upto bigint;
  base bigint;
begin
  select c.ctid as place, c.next_offset, c.latest_upto, c.filter_no, c.stopped_at, c.epoch, c.token, f as filter,
    exists (
      select from gapless.group_pause p
      where p.group_id = _group_id and p.topic_id = _topic_id and p.partition_id in (-1, _partition_id)
    ) as is_paused
  into here
  from gapless.consumer_offsets c
  left join gapless.group_filter f
    on f.group_id = c.group_id and f.topic_id = c.topic_id and f.filter_no = c.filter_no
  where c.ctid = gapless.offset_row(_group_id, _topic_id, _partition_id);
  outcome := case
    when here.next_offset is null then 'unplaced'
    when here.epoch <> _epoch or here.token is distinct from _token then 'fenced'
    when (here.next_offset < here.latest_upto) is not true then 'filtered'
    when here.is_paused then 'idle'
    when here.stopped_at is not null then 'beyond'
  end;
  first_offset := here.next_offset;
  if outcome is not null then
    last_offset := here.stopped_at;
    return next;
    return;
  end if;

  upto := least(here.latest_upto, here.next_offset + greatest(_scan_max, 1)) - 1;
  -- MUST be one statement, with all that is returned: in the next one a row may be replaced.
  held := array(
    select l from gapless.latest l
    where l.topic_id = _topic_id and l.partition_id = _partition_id and l.c_offset between here.next_offset and upto
    order by l.c_offset
    limit greatest(_batch_size, 1)
  );
  if cardinality(held) = greatest(_batch_size, 1) then
    upto := (held[cardinality(held)]).c_offset;
  end if;
  verdicts := array(
    select case
      when not (
        (here.filter).event_types is null or exists (
          select from unnest((here.filter).event_types) t
          where coalesce(r.event_type, '') like gapless.type_pattern(t)
        )
      ) then null
      when (here.filter).condition is null then ''
      else gapless.condition_error(r.payload, (here.filter).condition, (here.filter).params)
    end
    from unnest(held) with ordinality as r
    order by r.ordinality
  );

  perform set_config('gapless.chain', 'open', true);    -- as advance_offset()
  update gapless.consumer_offsets c
  set next_offset = upto + 1
  where c.ctid = here.place and c.group_id = _group_id and c.topic_id = _topic_id and c.partition_id = _partition_id
    and c.epoch = _epoch and c.token = _token and c.next_offset = here.next_offset
    and c.latest_upto = here.latest_upto and c.filter_no = here.filter_no
  returning c.ctid into place_after;
  if not found then
    outcome := 'filtered';
    return next;
    return;
  end if;

  select coalesce(array_agg(r.id order by r.c_offset), '{}'),
    coalesce(array_agg(r.c_offset order by r.c_offset), '{}'),
    case when bool_or(v.verdict <> '') then array_agg(nullif(v.verdict, '') order by r.c_offset) end
  into kept, kept_offsets, filter_errors
  from unnest(held) with ordinality as r
  join unnest(verdicts) with ordinality as v (verdict, n) on v.n = r.ordinality
  where v.verdict is not null;
  if here.filter_no <> 0 then
    perform gapless.tally_filter(
      _group_id, _topic_id, _partition_id, here.filter_no, cardinality(held), kept_offsets, filter_errors
    );
  end if;

  -- As segments: a row with the offsets that are passed before it, then those that are passed at the end. No event has
  -- id 0.
  outcome := 'claimed';
  last_offset := upto;
  claim_xid := pg_current_xact_id()::text;
  base := here.next_offset;
  timeline := 1;
  foreach each in array held loop
    base_offset := base;
    message_ids := array_fill(0::bigint, array[(each.c_offset - base)::int]) || each.id;
    unit_ends := repeat('1', cardinality(message_ids));
    timeline := each.timeline;
    return next;
    kept := null; kept_offsets := null; filter_errors := null;
    base := each.c_offset + 1;
  end loop;
  if base <= upto then
    base_offset := base;
    message_ids := array_fill(0::bigint, array[(upto - base + 1)::int]);
    unit_ends := repeat('1', cardinality(message_ids));
    return next;
  end if;
  if (select count(*) from unnest(verdicts) v where v is not null) > _events_max then
    return;
  end if;
  return query
  select null::text, null::bigint, null::bigint, null::text, null::tid,
    null::bigint, null::bigint[], null::text, null::int, null::bigint[], null::bigint[], null::text[], null::bigint,
    null::text[], null::boolean,
    r.id, r.key, r.event_type, r.payload, r.headers, r.host_id, r.user_id,
    r.transaction_id, r.xid, r.created_ts, r.cause, r.correlation
  from unnest(held) with ordinality as r
  where verdicts[r.ordinality] is not null;
end
$$;
