-- The part of promote() that moves events: those with a deliver_at from low to now_ts, at most max_events of
-- them and the rest of their transactions. Its caller has guard_promoting.
-- moved: how many. held: transactions of which a cancel() that has not ended has an event; they wait as a
-- whole (S3). left: transactions that are not looked at, for they were held a moment ago: whoever cancels and
-- does not commit keeps nobody else's events back (I11).
-- MUST stay one statement: what is counted, locked and deleted is of one snapshot.
-- MUST join no two of its parts: nothing is known of how many rows they have, and the plan would be a loop over
-- each other, 1 s for 1000 events.
-- MUST insert transaction_id and cause: without them all that moves at once would be one unit (S3).
create or replace function gapless.move_due(
  _max_events int, _low timestamptz, _now_ts timestamptz, _left xid8[],
  out moved bigint, out held xid8[]
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
begin
  with head as materialized (
    select s.deliver_at, s.xid
    from gapless.scheduled s
    where s.deliver_at >= _low and s.deliver_at <= _now_ts and s.xid <> all (_left)
    order by s.deliver_at, s.scheduled_id
    limit _max_events
    for update skip locked
  ),
  begun as materialized (
    select distinct h.deliver_at, h.xid from head h
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
    select g.topic_id, g.key, g.event_type, g.payload, g.headers, g.host_id, g.user_id,
      coalesce(g.transaction_id, gapless.transaction_uuid(g.xid, g.timeline)), g.cause, g.correlation
    from gone g
    order by g.deliver_at, g.first_id, g.scheduled_id
    returning 1
  )
  select (select count(*) from inserted),
    array(select distinct j.xid from judged j where not j.is_whole)
  into moved, held;
end
$$;
