-- name: is_sequencer_active
-- Whether a session has the role of the active sequencer. The locks of a primary are not seen from its standby, where
-- nobody else can give offsets.
select pg_is_in_recovery() or exists (
  select from pg_locks l
  where l.locktype = 'advisory' and l.classid = 7427001::oid and l.objid = 3::oid
    and l.objsubid = 2 and l.granted
    and l.database = (select d.oid from pg_database d where d.datname = current_database())
)

-- name: is_sequenced
-- Whether the events of this committed transaction have their offsets. They have when the newest run of the sequencer
-- could see it: a run gives offsets to all events that it sees.
select pg_visible_in_snapshot(%(xid)s::text::xid8, s.snapshot)
from gapless.sequencer s
order by s.run desc
limit 1

-- name: ends
-- The oldest and the newest offset of each partition; for a partition without events 1 and 0.
-- returns: gapless.log.tail:Ends
select
  p as partition,
  gapless.log_first(%(topic_id)s, p) as first_offset,
  coalesce(
    (
      select s.last_offset from gapless.log_segment s
      where s.topic_id = %(topic_id)s and s.partition_id = p
      order by s.base_offset desc limit 1
    ), 0) as last_offset
from unnest(%(partitions)s::int[]) p
order by p

-- name: ends_of
-- The ends of all partitions of a topic: the log holds first_offset to next_offset - 1.
-- returns: gapless.log.ranges:Bounds
select e.topic_id, e.partition_id as partition, e.first_offset, e.next_offset,
  coalesce(gapless.timeline_at(e.topic_id, e.partition_id, e.next_offset - 1), 1) as timeline
from gapless.ends(array[%(topic)s::text]) e
order by e.partition_id

-- name: replaced_from
select gapless.replaced_from(%(topic_id)s, %(partition)s, %(next_offset)s, %(timeline)s)

-- name: ends_since
-- As ends, without segments that were sequenced before that time: no event there was published after it.
-- returns: gapless.log.tail:Ends
select
  p as partition,
  greatest(
    e.first_offset, coalesce(gapless.segment_since(%(topic_id)s, p, %(since)s), e.end_offset)
  ) as first_offset,
  e.end_offset - 1 as last_offset
from unnest(%(partitions)s::int[]) p
cross join lateral gapless.log_ends(%(topic_id)s, p) e
order by p

-- name: ends_of_transaction
-- The places of a transaction's events in a topic; no row for events without an offset.
-- returns: gapless.log.tail:Ends
select l.partition_id as partition, l.first_offset, l.last_offset
from gapless.locate(%(transaction_id)s, array[%(topic_id)s::int]) l
where l.partition_id = any (%(partitions)s::int[])
order by 1, 2

-- name: newest
-- Where to begin so as to see the newest events over all partitions: within a run by id, as they were published, but
-- never against the order of their offsets. Unpacks no more segments of a partition than may hold that many events.
-- returns: gapless.log.tail:Place
with segments as (
  select p as partition, s.run, s.base_offset, s.message_ids
  from unnest(%(partitions)s::int[]) p
  cross join lateral (
    select n.run, n.base_offset, n.message_ids,
      sum(cardinality(n.message_ids)) over (order by n.base_offset desc) as events
    from (
      select * from gapless.log_segment s
      where s.topic_id = %(topic_id)s and s.partition_id = p
      order by s.base_offset desc
      limit %(count)s
    ) n
  ) s
  where s.events - cardinality(s.message_ids) < %(count)s
),
places as (
  select
    s.partition,
    s.run,
    s.base_offset + u.n - 1 as c_offset,
    max(u.id) over (partition by s.partition order by s.base_offset + u.n - 1) as highest_id
  from segments s
  cross join unnest(s.message_ids) with ordinality as u (id, n)
)
select x.partition,
  greatest(min(x.c_offset), gapless.log_first(%(topic_id)s, x.partition)) as "offset"
from (
  select p.partition, p.c_offset from places p
  order by p.run desc, p.highest_id desc, p.c_offset desc
  limit %(count)s
) x
group by x.partition
order by x.partition

-- name: slice
-- Some neighbouring events of a partition. payload_chars cuts the payload where only its beginning is shown (null: all
-- of it); key keeps the events with that key or, without one, that host_id; event_types, where and params keep the
-- events that a filter would match.
-- returns: gapless.log.tail:Entry
select
  %(partition)s::int as partition,
  r.c_offset as "offset", r.message_id, r.created_ts, r.key, r.event_type, r.host_id, r.user_id,
  r.transaction_id,
  r.headers::text as headers,
  left(r.payload::text, coalesce(%(payload_chars)s::int, 2147483647)) as payload
from gapless.read(
  %(topic)s, %(partition)s::int, %(first_offset)s::bigint, %(last_offset)s::bigint
) r
where (%(key)s::text is null or coalesce(r.key, r.host_id) = %(key)s::text)
  and (
    %(event_types)s::text[] is null
    or coalesce(r.event_type, '') like any (
      array(select gapless.type_pattern(t) from unnest(%(event_types)s::text[]) t)
    )
  )
  and (
    %(where)s::text is null
    or gapless.condition_error(r.payload, %(where)s::text::jsonpath, %(params)s::text::jsonb) is not null
  )

-- name: check_filter
select gapless.check_event_types(%(event_types)s::text[]),
  gapless.checked_condition(%(where)s::text, %(params)s::text::jsonb)

-- name: partitions
-- The partitions in which a topic, or one key of it, may have events, also those of earlier numbers.
select distinct case
    when %(key)s::text is null then p else gapless.partition_of(%(key)s, n.partitions)
  end as partition
from (
  select t.partitions from gapless.topic t where t.topic_id = %(topic_id)s
  union
  select l.partitions from gapless.layout l where l.topic_id = %(topic_id)s
) n
cross join lateral generate_series(0, n.partitions - 1) p
order by 1

-- name: own_xid
select pg_current_xact_id()::text
