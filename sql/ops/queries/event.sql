-- name: unit
-- The first and the last offset of the unit in which an event is.
select
  gapless.unit_start(t.topic_id, %(partition)s::int, %(offset)s::bigint),
  (gapless.unit_end(t.topic_id, %(partition)s::int, %(offset)s::bigint)).last_offset
from gapless.topic t
where t.name = %(topic)s

-- name: groups
-- The state of an event in each group of its topic. A group with an order has handled a unit as a whole, a queue each
-- event by itself. 'before': the group began after the event. 'unplaced': it has no offset in the partition. 'skipped':
-- the newest seek over the event went forward; it is known as long as the audit has it.
-- returns: gapless.ops.event:EventInGroup
select
  g.group_id as "group", g.mode,
  case
    when s.next_offset is null then 'unplaced'
    when s.state = 'skipped' and %(offset)s::bigint < o.start_offset then 'before'
    else s.state
  end as state,
  s.next_offset,
  case when s.state = 'pending' then %(offset)s::bigint - s.next_offset + 1 else 0 end as behind,
  d.first_offset as unit, s.letter, coalesce(s.reason, k.said) as reason, s.attempts
from gapless.topic t
join gapless.consumer_group g on g.topic_id = t.topic_id and not g.is_scratch
cross join lateral gapless.unit_state(
  g.group_id, t.topic_id, %(partition)s::int,
  case g.mode when 'queue' then %(offset)s::bigint else %(first_offset)s::bigint end,
  case g.mode when 'queue' then %(offset)s::bigint else %(last_offset)s::bigint end
) s
left join gapless.consumer_offsets o
  on o.ctid = gapless.offset_row(g.group_id, t.topic_id, %(partition)s::int)
left join gapless.dead_letter_event d
  on d.group_id = g.group_id and d.topic_id = t.topic_id and d.partition_id = %(partition)s::int
  and d.c_offset = %(offset)s::bigint and s.letter is not null
left join lateral (
  select format('%%s sought from %%s to %%s at %%s', a.who, m.old_offset, m.new_offset,
    to_char(a.at_ts at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"')) as said
  from gapless.audit a
  cross join lateral (
    select (a.detail ->> 'from')::bigint as old_offset, (a.detail ->> 'to')::bigint as new_offset
  ) m
  where a.group_id = g.group_id and a.topic_id = t.topic_id and a.partition_id = %(partition)s::int
    and a.action = 'seek' and s.state = 'skipped'
    and %(offset)s::bigint >= m.old_offset and %(offset)s::bigint < m.new_offset
  order by a.audit_id desc
  limit 1
) k on true
where t.name = %(topic)s
order by g.group_id
