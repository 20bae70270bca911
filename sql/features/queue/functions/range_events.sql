-- Return the events of a range of the log, in offset order, with the timeline of each. Raises GL410 when one is
-- missing. OFFSET 0: one look-up an id, as in read().
create or replace function gapless.range_events(
  _topic_id int, _partition_id int, _first_offset bigint, _last_offset bigint
) returns table (
  c_offset bigint, timeline int,
  id bigint, key text, event_type text, payload json, headers jsonb, host_id text, user_id text,
  transaction_id uuid, xid xid8, created_ts timestamptz, cause text, correlation uuid
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
declare
  found_events bigint;
  base bigint := coalesce((
    select b.base_offset from gapless.log_segment b
    where b.topic_id = _topic_id and b.partition_id = _partition_id and b.base_offset <= _first_offset
    order by b.base_offset desc limit 1
  ), 0);
  low bigint;      -- of ids, as in claim_events()
  high bigint;
begin
  select min(i), max(i) into low, high
  from gapless.log_segment s
  cross join lateral unnest(s.message_ids) i
  where s.topic_id = _topic_id and s.partition_id = _partition_id and s.base_offset between base and _last_offset;
  if gapless.is_in_default(array[low, high]) then
    low := null;    -- each by events_of()
  end if;
  return query
  select s.base_offset + u.n - 1, s.timeline,
    o.id, o.key, o.event_type, o.payload, o.headers, o.host_id, o.user_id,
    o.transaction_id, o.xid, o.created_ts, o.cause, o.correlation
  from gapless.log_segment s
  cross join lateral unnest(s.message_ids) with ordinality as u (id, n)
  cross join lateral (
    select * from gapless.outbox_message_t m where m.id = u.id and m.id between low and high
    union all
    select * from gapless.events_of(array[u.id]) where low is null
    offset 0
  ) o
  where s.topic_id = _topic_id and s.partition_id = _partition_id
    and s.base_offset between base and _last_offset
    and s.base_offset + u.n - 1 between _first_offset and _last_offset
  order by 1;
  get diagnostics found_events = row_count;
  if found_events <> _last_offset - _first_offset + 1 then
    raise exception 'offsets % to % of partition % of topic id % have only % events: gapless doctor says more',
      _first_offset, _last_offset, _partition_id, _topic_id, found_events
      using errcode = 'GL410';
  end if;
end
$$;
