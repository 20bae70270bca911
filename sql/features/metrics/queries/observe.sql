-- name: standings
-- The state of every group in every partition, whatever worker owns it.
-- returns: gapless.features.metrics.look:GroupStanding
-- index: log_segment_pkey and the chunks' primary keys, two look-ups for each partition
select
  e.group_id, e.topic, e.partition_id, e.owner_id,
  e.paused_ts is not null as is_paused,
  coalesce(g.next_offset, 0) as next_offset,
  coalesce(g.lag, 0) as lag,
  g.lag_s,
  e.error
from gapless.leases e
left join gapless.lag g using (group_id, topic_id, partition_id)
order by e.group_id, e.topic, e.partition_id

-- name: ends
-- returns: gapless.features.metrics.look:TopicEnds
select v.topic, v.last_offsets from gapless.topics v order by v.topic

-- name: letters
-- Units set aside; a partition counts up to 10000 in each state.
-- returns: gapless.features.metrics.look:LetterCount
-- index: dead_letter_open
select l.group_id, t.name as topic, w.state, sum(d.units)::bigint as units
from gapless.lease l
join gapless.topic t using (topic_id)
join gapless.consumer_group g using (group_id, topic_id)
cross join unnest(array['waiting', 'parked', 'dead']) w (state)
cross join lateral (
  select count(*) as units
  from (
    select from gapless.dead_letter x
    where x.group_id = l.group_id and x.topic_id = l.topic_id and x.partition_id = l.partition_id
      and x.state = w.state and x.state in ('waiting', 'parked', 'dead')
    limit 10000
  ) counted
) d
where not g.is_scratch
group by l.group_id, t.name, w.state
order by 1, 2, 3

-- name: chunks
-- held_s: when only consumers that are behind keep the oldest chunk, for how long its topics have not needed it.
-- returns: gapless.features.metrics.look:ChunkState
select
  (select count(*) from gapless.chunk) as chunks,
  coalesce(
    (
      select
        extract(epoch from now())
          - max(extract(epoch from e.newest_ts) + extract(epoch from t.retention))
      from gapless.chunk_end e
      join gapless.topic t using (topic_id)
      where e.upto = o.upto
        and (select bool_and(r.is_behind) from gapless.reasons_to_keep(o.upto) r)
    ), 0)::double precision as held_s
from (
  select min(c.upto) as upto
  from gapless.chunk c, gapless.retention_state s
  where c.upto > s.dropped_upto
) o

-- name: happened
-- Events of the last so many seconds, the newest first, as far as tables show them: for a partition its newest
-- hand-over and error, for a unit its last change of state.
-- returns: gapless.ops.happened:HappenedRow
-- index: dead_letter_failed, audit_at
with
since as materialized (
  select now() - make_interval(secs => %(since_s)s) as since_ts
),
happened as (
  (
    select e.evicted_ts as ts, 'evicted' as kind, null as group_id, null::int as topic_id,
      null::int as partition_id, null::bigint as c_offset, e.name as who,
      jsonb_build_object('reason', e.reason) as detail
    from gapless.eviction e, since s
    where e.evicted_ts >= s.since_ts
    order by e.evicted_ts desc
    limit %(rows_max)s
  )
  union all
  (
    select m.started_ts, 'joined', null, null, null, null, m.name, '{}'
    from gapless.all_members m, since s
    where m.started_ts >= s.since_ts
    order by m.started_ts desc
    limit %(rows_max)s
  )
  union all
  (
    select l.acquired_ts, 'hand-over', l.group_id, l.topic_id, l.partition_id, null,
      m.name, jsonb_build_object('epoch', l.epoch)
    from gapless.lease l
    left join gapless.all_members m on m.member_id = l.owner, since s
    where l.acquired_ts >= s.since_ts
    order by l.acquired_ts desc
    limit %(rows_max)s
  )
  union all
  (
    select l.error_ts, 'error', l.group_id, l.topic_id, l.partition_id, null, m.name,
      jsonb_build_object('error', l.error)
    from gapless.lease l
    left join gapless.all_members m on m.member_id = l.owner, since s
    where l.error_ts >= s.since_ts
    order by l.error_ts desc
    limit %(rows_max)s
  )
  union all
  (
    select d.last_failed_ts, case d.state when 'waiting' then 'retry' else 'dead letter' end,
      d.group_id, d.topic_id, d.partition_id, d.first_offset, d.worker,
      jsonb_build_object('error', d.reason, 'events', d.events, 'attempts', d.attempts)
    from gapless.dead_letter d, since s
    where d.last_failed_ts >= s.since_ts and (d.state = 'waiting' or d.died_ts is not null)
    order by d.last_failed_ts desc
    limit %(rows_max)s
  )
  union all
  (
    select d.redriven_ts, 'redrive', d.group_id, d.topic_id, d.partition_id, d.first_offset,
      d.redriven_by, jsonb_build_object('events', d.events, 'now', d.state)
    from gapless.dead_letter d, since s
    where d.redriven_ts >= s.since_ts
    order by d.redriven_ts desc
    limit %(rows_max)s
  )
  union all
  (
    select d.closed_ts, 'discard', d.group_id, d.topic_id, d.partition_id, d.first_offset,
      d.discarded_by, jsonb_build_object('events', d.events, 'reason', d.discard_reason)
    from gapless.dead_letter d, since s
    where d.closed_ts >= s.since_ts and d.state = 'discarded'
    order by d.closed_ts desc
    limit %(rows_max)s
  )
  union all
  (
    select a.at_ts, a.action, a.group_id, a.topic_id, a.partition_id, null, a.who, a.detail
    from gapless.audit a, since s
    where a.at_ts >= s.since_ts
    order by a.at_ts desc
    limit %(rows_max)s
  )
)
select h.ts, h.kind, nullif(h.group_id, '') as "group", t.name as topic,
  h.partition_id as "partition", h.c_offset as "offset", h.who, h.detail
from happened h
left join gapless.topic t using (topic_id)
order by h.ts desc
limit %(rows_max)s
