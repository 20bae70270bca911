-- Return the number of sessions that the present members take, with one more that is about to join, when every
-- partition is served; and the number that the server admits to ordinary roles. own: the supervisors' own sessions, for
-- each its control session and sequencer candidate, and the exporter of a supervisor with metrics. Topics that do not
-- exist yet count with total_partitions.
create or replace function gapless.sessions_needed(
  _capacity int, _partitions_per_worker int, _groups text[], _topics text[], _total_partitions int,
  _sessions int default 2,
  out supervisors bigint, out partitions bigint, out workers bigint,
  out max_connections int, out reserved int, out own bigint
)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  with
  fleet as (
    select m.member_id, m.capacity, m.partitions_per_worker, m.sessions
    from gapless.member m
    where exists (
      select from pg_locks k
      where k.locktype = 'advisory' and k.classid = 7427002::oid and k.objid = m.member_no::oid
        and k.objsubid = 2 and k.granted
        and k.database = (select d.oid from pg_database d where d.datname = current_database())
    )
    union all
    select null, _capacity, _partitions_per_worker, _sessions
  ),
  memberships as (
    select mg.member_id, mg.group_id, t.name as topic
    from gapless.member_group mg
    join gapless.topic t using (topic_id)
    join gapless.consumer_group g using (group_id, topic_id)
    join fleet using (member_id)
    where g.mode = 'ordered'    -- any number of workers serve a queue
    union all
    select null, u.group_id, u.topic
    from unnest(_groups, _topics) as u (group_id, topic)
    where not exists (
      select from gapless.consumer_group g
      join gapless.topic t using (topic_id)
      where g.group_id = u.group_id and t.name = u.topic and g.mode = 'queue'
    )
  ),
  shares as (
    select
      s.group_id, s.topic, f.partitions_per_worker,
      least(p.partitions, sum(coalesce(f.capacity, p.partitions)) over same) as served,
      count(*) over same as members
    from memberships s
    join fleet f on f.member_id is not distinct from s.member_id
    left join gapless.topic t on t.name = s.topic
    cross join lateral (
      select coalesce(t.partitions, _total_partitions) as partitions
    ) p
    window same as (partition by s.group_id, s.topic)
  ),
  demands as (
    select
      min(served) as served,
      sum(ceil(ceil(served::numeric / members) / partitions_per_worker)) as workers
    from shares
    group by group_id, topic
  )
  select
    (select count(*) from fleet),
    coalesce(sum(d.served), 0)::bigint,
    coalesce(sum(least(d.served, d.workers)), 0)::bigint,
    current_setting('max_connections')::int,
    current_setting('superuser_reserved_connections')::int
      + coalesce(current_setting('reserved_connections', true), '0')::int,
    (select sum(f.sessions) from fleet f)
  from demands d
$$;
