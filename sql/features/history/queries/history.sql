-- name: record
-- The seconds until the next minute. keep_hours: null: as the last recording, at first 72.
select 60 - extract(epoch from clock_timestamp())::numeric %% 60
from gapless.record_history(
  coalesce(%(keep_hours)s::int, (select s.keep_hours from gapless.history_state s), 72)
)

-- name: state
-- kept_hours: null: nothing was recorded yet; 0: switched off. series: those of the group and the topic.
-- returns: gapless.features.history.ops:_State
select
  now() as now_ts,
  (select s.keep_hours from gapless.history_state s) as kept_hours,
  (
    select count(*) from gapless.history_series s
    left join gapless.topic t using (topic_id)
    where (%(group)s::text is null or coalesce(s.group_id, '') = %(group)s)
      and (%(topic)s::text is null or coalesce(t.name, '') = %(topic)s)
  ) as series

-- name: known
-- Raise GL404 for an unknown group or topic.
select
  case when %(group)s::text is not null then (
    select count(*) from gapless.group_partitions(%(group)s, %(topic)s)
  ) when %(topic)s::text is not null then gapless.topic_id(%(topic)s) end as found

-- name: steps
-- The series by name, each with the steps in which it was recorded: the n-th one, from 0.
-- returns: gapless.features.history.ops:_Steps
select
  p.group_id as "group", p.topic, array_agg(p.step order by p.step) as steps,
  array_agg(p.lag order by p.step) as lag,
  array_agg(p.lag_s order by p.step) as lag_s,
  array_agg(p.handled / 60 order by p.step) as handled_per_s,
  array_agg(p.dead_letters order by p.step) as dead_letters,
  array_agg(p.members order by p.step) as members,
  array_agg(p.published / 60 order by p.step) as published_per_s
from (
  select
    h.group_id, h.topic,
    floor(extract(epoch from h.minute - %(since)s) / %(step_s)s)::int as step,
    max(h.lag) as lag,
    max(h.lag_s) as lag_s,
    avg(h.handled)::double precision as handled,
    max(h.dead_letters) as dead_letters,
    (array_agg(h.members order by h.minute desc))[1] as members,
    avg(h.published)::double precision as published
  from gapless.history(
    %(group)s, %(topic)s, %(since)s, %(until)s, series_max => %(most)s, series_skip => %(skip)s
  ) h
  group by h.group_id, h.topic, 3
) p
group by p.group_id, p.topic
order by p.topic nulls first, p.group_id nulls first
