-- Claim as claim_at(), and read the claimed events in the same statement: for callers that keep up with a log, and
-- would otherwise need a round trip for a handful of events.
-- Returns the rows of claim_at(), then one row per event with only the event's columns (those of the query `fetch`), in
-- any order; no event rows when the range has more than events_max events. The caller has to detect an id without an
-- event (I3).
-- plan: the query of events is planned each time, for ids that are known then. A plan that is kept locks every chunk,
--   and the default one with them, for as long as the handler takes: no chunk could be made (create_chunks.sql).
--   is_in_default() says whether the default chunk has to be let go of.
create or replace function gapless.claim_events(
  _group_id text, _topic_id int, _partition_id int, _epoch bigint, _token uuid, _batch_size int,
  _events_max int, _place tid, _group_by text default 'transaction'
) returns table (
  outcome text, first_offset bigint, last_offset bigint, claim_xid text, place_after tid,
  base_offset bigint, message_ids bigint[], unit_ends text, timeline int,
  id bigint, key text, event_type text, payload json, headers jsonb, host_id text, user_id text,
  transaction_id uuid, xid xid8, created_ts timestamptz, cause text, correlation uuid
)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off as $$
#variable_conflict use_column
declare
  ids bigint[];
  low bigint;
  high bigint;
begin
  for outcome, first_offset, last_offset, claim_xid, place_after, base_offset, message_ids, unit_ends,
    timeline
  in
    select a.*
    from gapless.claim_at(
      _group_id, _topic_id, _partition_id, _epoch, _token, _batch_size, 0, _place, _group_by
    ) a
  loop
    return next;
    if last_offset - first_offset < _events_max then
      ids := ids
        || message_ids[greatest(first_offset - base_offset, 0) + 1 : last_offset - base_offset + 1];
    end if;
  end loop;
  if ids is null then
    return;
  end if;
  select min(i), max(i), set_config('plan_cache_mode', 'force_custom_plan', true) into low, high from unnest(ids) i;
  if gapless.is_in_default(ids) then
    return query
    select null::text, null::bigint, null::bigint, null::text, null::tid,
      null::bigint, null::bigint[], null::text, null::int,
      o.id, o.key, o.event_type, o.payload, o.headers, o.host_id, o.user_id,
      o.transaction_id, o.xid, o.created_ts, o.cause, o.correlation
    from gapless.events_of(ids) o;
    return;
  end if;
  return query
  select null::text, null::bigint, null::bigint, null::text, null::tid,
    null::bigint, null::bigint[], null::text, null::int,
    o.id, o.key, o.event_type, o.payload, o.headers, o.host_id, o.user_id,
    o.transaction_id, o.xid, o.created_ts, o.cause, o.correlation
  from gapless.outbox_message_t o
  where o.id between low and high and o.id = any ((select ids)::bigint[]);
end
$$;
