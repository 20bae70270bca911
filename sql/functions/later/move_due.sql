-- The part of promote() that moves events: those with a deliver_at from low to now_ts, at most max_events of
-- them and the rest of their transactions. Its caller has guard_promoting.
-- moved: how many. held: transactions of which a cancel() that has not ended has an event; they wait as a
-- whole (S3). left: transactions that are not looked at, for they were held a moment ago: whoever cancels and
-- does not commit keeps nobody else's events back (I11).
-- MUST stay one statement: what is counted, locked and deleted is of one snapshot.
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
    select s.deliver_at, s.scheduled_id, s.xid,
      min(s.scheduled_id) over (partition by s.deliver_at, s.xid) as first_id
    from begun b
    join gapless.scheduled s on s.xid = b.xid and s.deliver_at = b.deliver_at
  ),
  locked as materialized (
    select s.deliver_at, s.scheduled_id
    from wanted w
    join gapless.scheduled s on s.deliver_at = w.deliver_at and s.scheduled_id = w.scheduled_id
    for update of s skip locked
  ),
  whole as materialized (
    select w.deliver_at, w.xid, count(*) = count(l.scheduled_id) as is_whole
    from wanted w
    left join locked l on l.deliver_at = w.deliver_at and l.scheduled_id = w.scheduled_id
    group by w.deliver_at, w.xid
  ),
  gone as (
    delete from gapless.scheduled s
    using wanted w
    join whole h on h.deliver_at = w.deliver_at and h.xid = w.xid and h.is_whole
    where s.deliver_at = w.deliver_at and s.scheduled_id = w.scheduled_id
    returning s.*, w.first_id
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
    array(select distinct h.xid from whole h where not h.is_whole)
  into moved, held;
end
$$;
