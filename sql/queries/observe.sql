-- name: standings
-- How every group stands in every partition, whoever works on it.
-- returns: gapless.worker.exporter.look:Standing
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
-- returns: gapless.worker.exporter.look:TopicEnds
select v.topic, v.last_offsets from gapless.topics v order by v.topic

-- name: letters
-- Units set aside; a partition counts up to 10000 in each state.
-- returns: gapless.worker.exporter.look:Letters
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
-- held_s: when all that keeps the oldest chunk is somebody who is behind, for how long its topics have had
-- enough of it.
-- returns: gapless.worker.exporter.look:Chunks
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
