-- Move due events, as a part of promote(): it looks at the first max_events with a deliver_at up to now_ts, from (low,
-- low_id) on, and moves their transactions whole, as far as their events have one deliver_at. Its caller has
-- guard_promoting.
-- moved: the number of events. held: the number of events in transactions with an event that an open cancel() holds;
-- they wait whole (S3). next_at, next_id: where the next look begins; null: no event was due. A transaction is looked
-- at at the place of its first event: so all events of a cancel that does not commit are looked at once (I11).
-- MUST stay one statement: the counted, locked and deleted rows are of one snapshot.
-- MUST join no two of its parts: their sizes are unknown, and the plan would be a nested loop, 1 s for 1000 events.
-- MUST insert transaction_id and cause: without them all events that move at once would be one unit (S3).
create or replace function gapless.move_due(
  _max_events int, _low timestamptz, _low_id bigint, _now_ts timestamptz,
  out moved bigint, out held bigint, out next_at timestamptz, out next_id bigint
)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
  with head as materialized (
    select s.deliver_at, s.scheduled_id, s.xid
    from gapless.scheduled s
    where (s.deliver_at, s.scheduled_id) >= (_low, _low_id) and s.deliver_at <= _now_ts
    order by s.deliver_at, s.scheduled_id
    limit _max_events
  ),
  begun as materialized (
    select distinct h.deliver_at, h.xid from head h
    where h.deliver_at > _low or not exists (
      select from gapless.scheduled s
      where s.xid = h.xid and s.deliver_at = h.deliver_at and s.scheduled_id < _low_id
    )
  ),
  wanted as materialized (
    select s.deliver_at, s.scheduled_id, s.xid
    from begun b
    join gapless.scheduled s on s.xid = b.xid and s.deliver_at = b.deliver_at
  ),
  locked as materialized (
    select s.deliver_at, s.scheduled_id, s.xid
    from wanted w
    join gapless.scheduled s on s.deliver_at = w.deliver_at and s.scheduled_id = w.scheduled_id
    for update of s skip locked
  ),
  judged as materialized (
    select x.deliver_at, x.scheduled_id, x.xid, x.is_locked,
      min(x.scheduled_id) over of_one as first_id,
      count(*) over of_one = 2 * count(*) filter (where x.is_locked) over of_one as is_whole
    from (
      select w.deliver_at, w.scheduled_id, w.xid, false as is_locked from wanted w
      union all
      select l.deliver_at, l.scheduled_id, l.xid, true from locked l
    ) x
    window of_one as (partition by x.deliver_at, x.xid)
  ),
  gone as (
    delete from gapless.scheduled s
    using judged j
    where s.deliver_at = j.deliver_at and s.scheduled_id = j.scheduled_id and j.is_locked and j.is_whole
    returning s.*, j.first_id
  ),
  inserted as (
    insert into gapless.outbox_message_t
      (topic_id, key, event_type, payload, headers, host_id, user_id, transaction_id, cause,
        correlation)
    select g.topic_id, g.key, g.event_type, g.payload,
      case when jsonb_typeof(g.headers) = 'object' then g.headers end,    -- else it would stop all others
      g.host_id, g.user_id,
      coalesce(g.transaction_id, gapless.transaction_uuid(g.xid, g.timeline)), g.cause, g.correlation
    from gone g
    order by g.deliver_at, g.first_id, g.scheduled_id
    returning 1
  )
  select (select count(*) from inserted), (select count(*) from judged j where not j.is_locked and not j.is_whole),
    l.deliver_at, l.scheduled_id + 1
  into moved, held, next_at, next_id
  from (values (0)) one
  left join (select h.* from head h order by h.deliver_at desc, h.scheduled_id desc limit 1) l on true;
end
$$;
