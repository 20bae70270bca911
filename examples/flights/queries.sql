-- name: note_handled
insert into flights_demo.handled (group_id, partition_id, c_offset)
select %(group_id)s, %(partition_id)s, c_offset
from generate_series(%(first_offset)s::bigint, %(last_offset)s::bigint) as c_offset;

-- name: add_to_punctuality
insert into flights_demo.punctuality as p (
  carrier, day, scheduled, cancelled, departed, diverted,
  arrived, arrived_timed, arrived_late, dep_delay_min_sum, arr_delay_min_sum
)
values (
  %(carrier)s, %(day)s, %(scheduled)s, %(cancelled)s, %(departed)s, %(diverted)s,
  %(arrived)s, %(arrived_timed)s, %(arrived_late)s, %(dep_delay_min_sum)s, %(arr_delay_min_sum)s
)
on conflict (carrier, day) do update set
  scheduled = p.scheduled + excluded.scheduled,
  cancelled = p.cancelled + excluded.cancelled,
  departed = p.departed + excluded.departed,
  diverted = p.diverted + excluded.diverted,
  arrived = p.arrived + excluded.arrived,
  arrived_timed = p.arrived_timed + excluded.arrived_timed,
  arrived_late = p.arrived_late + excluded.arrived_late,
  dep_delay_min_sum = p.dep_delay_min_sum + excluded.dep_delay_min_sum,
  arr_delay_min_sum = p.arr_delay_min_sum + excluded.arr_delay_min_sum;

-- name: keep_newest
-- Ties of the same minute are decided by flight, then airport: the result does not depend on the
-- order in which the events come.
insert into flights_demo.positions as p (
  tailnum, at, flight, airport, lat, lon, status, partition_id, c_offset
)
values (
  %(tailnum)s, %(at)s, %(flight)s, %(airport)s, %(lat)s, %(lon)s, %(status)s, %(partition_id)s,
  %(c_offset)s
)
on conflict (tailnum) do update set
  at = excluded.at,
  flight = excluded.flight,
  airport = excluded.airport,
  lat = excluded.lat,
  lon = excluded.lon,
  status = excluded.status,
  partition_id = excluded.partition_id,
  c_offset = excluded.c_offset
where (p.at, p.flight, p.airport) < (excluded.at, excluded.flight, excluded.airport);

-- name: punctuality_rows
select
  carrier, day, scheduled, cancelled, departed, diverted,
  arrived, arrived_timed, arrived_late, dep_delay_min_sum, arr_delay_min_sum
from flights_demo.punctuality
order by carrier, day;

-- name: position_rows
select tailnum, at, flight, airport, lat, lon, status
from flights_demo.positions
order by tailnum;

-- name: dead_letter_rows
-- A refused flight, and how many of its events are dead letters.
select d.group_id, (d.payload->>'day')::date, d.payload->>'flight', d.payload->>'origin', count(*)
from gapless.dead_letter_queue d
join gapless.topic t using (topic_id)
where t.name = 'flights'
group by 1, 2, 3, 4;

-- name: handled_rows
-- Equal numbers mean: no event was handled twice.
select group_id, count(*), count(distinct (partition_id, c_offset))
from flights_demo.handled
group by group_id
order by group_id;

-- name: latency
-- From the INSERT of an event to its handling, in ms: median and 99th percentile.
select h.group_id, percentile_cont(array[0.5, 0.99]) within group (
  order by extract(epoch from h.handled_ts - r.created_ts) * 1000
)
from gapless.topic t
cross join lateral generate_series(0, t.partitions - 1) as p (partition_id)
cross join lateral gapless.read(t.name, p.partition_id) r
join flights_demo.handled h on h.partition_id = p.partition_id and h.c_offset = r.c_offset
where t.name = 'flights'
group by h.group_id
order by h.group_id;

-- name: rate
-- Events handled by all groups together, and seconds from the first insert to the last handling.
select count(*), extract(epoch from max(h.handled_ts) - (
  select min(o.created_ts) from gapless.outbox_message_t o join gapless.topic t using (topic_id)
  where t.name = 'flights'
))::float8
from flights_demo.handled h;

-- name: drop_tables
drop schema if exists flights_demo cascade;

-- name: hourly_rows
select carrier, airport, hour, departed, departed_late, delay_min_sum
from flights_demo.hourly
order by carrier, airport, hour

-- name: topic_places
-- Every place of the topic that holds an event.
select s.partition_id, s.base_offset + u.n - 1
from gapless.log_segment s
join gapless.topic t using (topic_id)
cross join unnest(s.message_ids) with ordinality as u (id, n)
where t.name = 'flights'
