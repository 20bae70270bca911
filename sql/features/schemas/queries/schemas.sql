-- name: schemas
-- returns: gapless.features.schemas.ops:SchemaInfo
select s.topic, s.event_type, s.version, s.compatibility, s.is_newest, s.set_by, s.set_ts as set_at, s.schema::text
from gapless.schemas s
where (%(topic)s::text is null or s.topic = %(topic)s)
  and (%(event_type)s::text is null or s.event_type = %(event_type)s)
order by s.topic, s.event_type, s.version

-- name: set_schema
select gapless.set_schema(
  %(topic)s, %(schema)s::text::json, %(event_type)s, %(compatibility)s, %(after_version)s::int
)

-- name: remove_schema
select gapless.remove_schema(%(topic)s, %(event_type)s, %(version)s::int)

-- name: newest_events
-- The newest events of each partition, at most so many.
-- returns: gapless.features.schemas.ops:LoggedPayload
select e.partition_id as partition, r.c_offset as "offset", r.event_type, coalesce(r.payload::text, 'null') as payload
from gapless.ends(array[%(topic)s::text]) e
cross join lateral gapless.read(
  e.topic, e.partition_id, greatest(e.first_offset, e.next_offset - %(last_events)s::bigint), e.next_offset - 1
) r
where e.next_offset > e.first_offset
order by e.partition_id, r.c_offset

-- name: invalid_letters
-- returns: gapless.features.schemas.checks:InvalidLetters
select l.group_id as "group", t.name as topic, count(*) as units, max(l.last_failed_ts) as newest_at
from gapless.dead_letter l
join gapless.topic t using (topic_id)
where l.exception_class like '%%.InvalidEventError' and l.state = 'dead'
group by l.group_id, t.name
order by l.group_id, t.name

-- name: in_status
-- Topics with schemas. Dead letters have no index by exception, so a bounded number of them is examined.
-- returns: gapless.features.schemas.section:Checked
with letters as materialized (
  select l.topic_id, l.state, l.exception_class from gapless.dead_letter l limit 10000
)
select s.topic, array_agg(distinct s.event_type order by s.event_type) as types, count(*) as versions,
  (
    select count(*) from letters l join gapless.topic t using (topic_id)
    where t.name = s.topic and l.state = 'dead' and l.exception_class like '%%.InvalidEventError'
  ) as unfit
from gapless.schemas s
group by s.topic
order by s.topic
