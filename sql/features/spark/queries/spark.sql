-- name: ends
-- created_us: of the topic, in microseconds since 1970; a dump and an upgrade keep it.
-- returns: gapless.features.spark.place:End
select e.topic, e.topic_id, e.partition_id, e.first_offset, e.next_offset,
  coalesce(gapless.timeline_at(e.topic_id, e.partition_id, e.next_offset - 1), 1) as timeline,
  (extract(epoch from t.created_ts) * 1000000)::bigint as created_us
from gapless.ends(%(topics)s::text[]) e
join gapless.topic t using (topic_id)
order by e.topic, e.partition_id

-- name: cut
select c.topic_id, c.partition_id, c.next_offset
from gapless.cut(
  %(topic_ids)s::int[], %(partition_ids)s::int[], %(next_offsets)s::bigint[], %(events_max)s::bigint
) c

-- name: newest_timeline
-- The newest timeline on which events between two places (the n-th of each array) were given.
-- index: log_segment_pkey
select coalesce(max(m.timeline), 1)
from unnest(
  %(topic_ids)s::int[], %(partition_ids)s::int[], %(first_offsets)s::bigint[],
  %(next_offsets)s::bigint[]
) as r (topic_id, partition_id, first_offset, next_offset)
cross join lateral (
  select max(s.timeline) as timeline
  from gapless.log_segment s
  where s.topic_id = r.topic_id and s.partition_id = r.partition_id
    and s.base_offset < r.next_offset
    and s.base_offset >= coalesce(
      (
        select b.base_offset from gapless.log_segment b
        where b.topic_id = r.topic_id and b.partition_id = r.partition_id
          and b.base_offset <= r.first_offset
        order by b.base_offset desc limit 1
      ), 0)
) m

-- name: now_xid
-- Earlier commits have an xid below it.
select pg_snapshot_xmax(pg_current_snapshot())::text

-- name: is_sequenced_up_to
-- Whether all events that committed before now_xid have their offsets. MUST look at transactions in progress at the
-- last run, too: that run may have begun before the call, and one of them may have committed in between.
select pg_snapshot_xmax(s.snapshot) >= %(xid)s::text::xid8 and not exists (
    select from pg_snapshot_xip(s.snapshot) x
    where x < %(xid)s::text::xid8 and pg_visible_in_snapshot(x, pg_current_snapshot())
  ) or not gapless.pending()
from gapless.sequencer s
order by s.run desc
limit 1

-- name: now
select clock_timestamp()

-- name: is_standby
select pg_is_in_recovery()

-- name: written_up_to
-- The place in the WAL behind all commits so far.
select pg_current_wal_flush_lsn()::text

-- name: is_replayed_up_to
select not pg_is_in_recovery() or pg_last_wal_replay_lsn() >= %(lsn)s::text::pg_lsn

-- name: not_replayed
-- The ranges (the n-th of each array) whose last offset is not there yet, if this is a standby. A primary has all
-- that there is.
-- index: log_segment_pkey
select r.n::int as range_no
from unnest(%(topic_ids)s::int[], %(partition_ids)s::int[], %(last_offsets)s::bigint[])
  with ordinality as r (topic_id, partition_id, last_offset, n)
where pg_is_in_recovery() and r.last_offset > coalesce(
  (
    select s.last_offset from gapless.log_segment s
    where s.topic_id = r.topic_id and s.partition_id = r.partition_id
    order by s.base_offset desc limit 1
  ), 0)
order by r.n

-- name: offset_since
select gapless.offset_since(%(topic_id)s, %(partition_id)s, %(moment)s)

-- name: position
select t.name, c.partition_id, c.next_offset
from gapless.consumer_offsets c
join gapless.topic t using (topic_id)
where c.group_id = %(group_id)s and t.name = any (%(topics)s::text[])

-- name: lag_at
-- The lag of a reader at some places (the n-th of each array), as the view lag has it of groups. created_us: when the
-- topic was created; null: whenever; a topic of that name in another database is no place.
-- returns: gapless.features.spark.lag:PartitionLag
-- index: log_segment_pkey and the chunks' primary keys, two look-ups for each place
select
  t.name as topic, p.partition_id as "partition", p.next_offset,
  greatest(coalesce(e.last_offset, 0) - p.next_offset + 1, 0) as events,
  case
    when p.next_offset > coalesce(e.last_offset, 0) then 0
    when o.created_ts is not null then greatest(extract(epoch from now() - o.created_ts), 0)
  end::double precision as seconds
from unnest(
  %(topics)s::text[], %(partition_ids)s::int[], %(next_offsets)s::bigint[], %(created_us)s::bigint[]
) as p (topic, partition_id, next_offset, created_us)
join gapless.topic t
  on t.name = p.topic and coalesce(p.created_us = extract(epoch from t.created_ts) * 1000000, true)
left join lateral (
  select s.last_offset from gapless.log_segment s
  where s.topic_id = t.topic_id and s.partition_id = p.partition_id
  order by s.base_offset desc
  limit 1
) e on true
left join lateral (
  select m.created_ts
  from (
    select s.message_ids[p.next_offset - s.base_offset + 1] as id
    from gapless.log_segment s
    where s.topic_id = t.topic_id and s.partition_id = p.partition_id
      and s.base_offset <= p.next_offset and p.next_offset <= e.last_offset
    order by s.base_offset desc
    limit 1
  ) n
  join gapless.outbox_message_t m on m.id = n.id
) o on true
order by t.name, p.partition_id

-- name: record_position
select gapless.record_position(
  %(group_id)s, %(topic)s, %(partition_ids)s::int[], %(next_offsets)s::bigint[]
)

-- name: segments
-- The segments that overlap some ranges (the n-th of each array), in the order of ranges and offsets.
-- index: log_segment_pkey
select r.n::int as range_no, s.base_offset, s.message_ids, s.timeline
from unnest(
  %(topic_ids)s::int[], %(partition_ids)s::int[], %(first_offsets)s::bigint[],
  %(last_offsets)s::bigint[]
) with ordinality as r (topic_id, partition_id, first_offset, last_offset, n)
cross join lateral (
  select b.base_offset, b.message_ids, coalesce(b.timeline, 1) as timeline
  from gapless.segments_from(
    r.topic_id, r.partition_id, r.first_offset, r.last_offset - r.first_offset + 1
  ) b
  where b.base_offset <= r.last_offset
  order by b.base_offset
) s
order by r.n, s.base_offset

-- name: events
-- As `fetch` of the log: an index look-up for each id, whatever the planner guesses. features/spark/fetch.py inserts
-- the columns between select and from, from a fixed list.
-- event_types, where: null for all; a payload for which where cannot be evaluated is included (condition_error.sql).
-- index: primary key of a chunk
select o.id
from gapless.outbox_message_t o
where o.id between %(low)s and %(high)s and o.id = any ((select %(ids)s::bigint[])::bigint[])
  and (%(event_types)s::text[] is null or o.event_type = any (%(event_types)s::text[]))
  and (
    %(where)s::text is null
    or gapless.condition_error(o.payload, %(where)s::text::jsonpath, %(params)s::text::jsonb) is not null
  )

-- name: events_between
-- As `events`, when most ids between the two are wanted: no look-up for each of them, no page of the table twice.
-- features/spark/fetch.py leaves out the other events.
-- index: primary key of a chunk
select o.id
from gapless.outbox_message_t o
where o.id between %(low)s and %(high)s
  and (%(event_types)s::text[] is null or o.event_type = any (%(event_types)s::text[]))
  and (
    %(where)s::text is null
    or gapless.condition_error(o.payload, %(where)s::text::jsonpath, %(params)s::text::jsonb) is not null
  )

-- name: latest_starts
-- The place of each partition of compacted topics up to which latest has the newest events of keys; began_us: when the
-- compaction of the topic began, in microseconds since 1970.
select t.name, g.partition_id, g.upto, (extract(epoch from b.began_ts) * 1000000)::bigint as began_us
from gapless.topic t
join gapless.group_starts g on g.start = 'latest-per-key' and g.topic_id = t.topic_id
cross join lateral (
  select min(c.began_ts) as began_ts from gapless.compaction c where c.topic_id = t.topic_id
) b
where t.compacted and t.name = any (%(topics)s::text[])
order by t.name, g.partition_id

-- name: latest_keys
-- The number of rows that latest has of a topic.
select coalesce(sum(c.keys), 0)::bigint from gapless.compaction c where c.topic_id = %(topic_id)s

-- name: latest_between
-- Rows of latest whose keys have a digest after one and before the other (null: any), at offsets below `before` of
-- their partition or, unless that is null, from `since` on; others: also those of partitions that are not named.
-- features/spark/latest.py inserts the columns between select and from, from a fixed list.
-- There is a row in any case, because the state of the compaction has to be that of the snapshot of the rows. problem:
-- why there are none: ended, the compaction that began at began_us; behind, a standby has not replayed all of it yet.
-- order: by digest, so that a read that is cut, or has had rows_max rows, continues behind the last row.
-- plan: offset 0, or the state is found again for each row; order and limit inside, or all rows are sorted.
-- index: latest_pkey
select l.id
from (
  select case
    when t.topic_id is null or began_us is distinct from %(began_us)s::bigint then 'ended'
    when exists (
      select from unnest(%(partition_ids)s::int[], %(before)s::bigint[]) as p (partition_id, before)
      left join gapless.compaction c on c.topic_id = t.topic_id and c.partition_id = p.partition_id
      where coalesce(c.next_offset, 1) < p.before
    ) then 'behind'
  end as problem
  from (
    select (extract(epoch from min(c.began_ts)) * 1000000)::bigint as began_us
    from gapless.compaction c where c.topic_id = %(topic_id)s
  ) b
  left join gapless.topic t on t.topic_id = %(topic_id)s and t.compacted
  offset 0
) v
left join lateral (
  select o.*
  from gapless.latest o
  left join unnest(%(partition_ids)s::int[], %(before)s::bigint[], %(since)s::bigint[])
    as p (partition_id, before, since) on p.partition_id = o.partition_id
  where v.problem is null and o.topic_id = %(topic_id)s and o.key_digest > %(after)s::bytea
    and (%(until)s::bytea is null or o.key_digest < %(until)s::bytea)
    and coalesce(o.c_offset < p.before or o.c_offset >= p.since, %(others)s)
    and (%(event_types)s::text[] is null or o.event_type = any (%(event_types)s::text[]))
    and (
      %(where)s::text is null
      or gapless.condition_error(o.payload, %(where)s::text::jsonpath, %(params)s::text::jsonb) is not null
    )
  order by o.key_digest
  limit %(rows_max)s::int
) l on true
order by l.key_digest

-- name: topic_ids
select t.name, t.topic_id from gapless.topic t

-- name: open_stage
select gapless.open_stage(%(token)s)

-- name: publish_stage
select gapless.publish_stage(%(token)s, %(events)s)

-- name: drop_stages
select gapless.drop_stages(%(tokens)s::uuid[], '1 day')

-- name: drop_job_stages
select gapless.drop_job_stages(%(job)s)

-- name: fence_batch
select gapless.fence_batch(%(sink_id)s, %(batch_id)s, %(events)s)

-- name: copy_into_log
copy gapless.outbox_message_t
  (topic_id, key, host_id, user_id, transaction_id, event_type, payload, headers)
from stdin (format csv)

-- name: register_pipeline
select gapless.register_pipeline(%(name)s, %(topics)s::text[], %(start)s, %(target)s)

-- name: lock_pipeline
-- One run of a pipeline at a time; the lock ends with the session.
select pg_advisory_lock(7427005, hashtext(%(name)s))

-- name: try_lock_pipeline
select pg_try_advisory_lock(7427005, hashtext(%(name)s))

-- name: unlock_pipeline
select pg_advisory_unlock(7427005, hashtext(%(name)s))

-- name: stand_by
-- While the session lives, the status counts it as standing by. MUST not wait: anybody may have the lock exclusively.
select pg_try_advisory_lock_shared(7427007, hashtext(%(name)s))

-- name: stand_by_no_more
select pg_advisory_unlock_shared(7427007, hashtext(%(name)s))

-- name: try_lock_compaction
-- One merge of a pipeline's files at a time. No pipeline has a name with a blank, so these locks of the same class are
-- no standbys.
select pg_try_advisory_lock(7427007, hashtext('compaction of ' || %(name)s))

-- name: unlock_compaction
select pg_advisory_unlock(7427007, hashtext('compaction of ' || %(name)s))

-- name: lock_files
-- No file gets its name while a folder is exchanged.
select pg_advisory_lock(7427007, hashtext('files of ' || %(name)s))

-- name: unlock_files
select pg_advisory_unlock(7427007, hashtext('files of ' || %(name)s))

-- name: end_tasks
-- End the sessions of tasks that still send rows to a pipeline's stage: they are of lost tries, and those of a process
-- that is paused keep their lock.
select pg_terminate_backend(a.pid)
from pg_stat_activity a
where a.usename = current_user and a.application_name = %(application)s and a.pid <> pg_backend_pid()
  and a.datname = current_database() and a.pid in (
    select l.pid from pg_locks l where l.relation = to_regclass(%(stage)s)
  )

-- name: take_pipeline
select gapless.take_pipeline(%(name)s, %(runner)s)

-- name: beat_pipelines
select gapless.beat_pipelines(%(names)s::text[], %(epochs)s::bigint[])

-- name: end_silent_run
select gapless.end_silent_run(%(name)s, make_interval(secs => %(ttl_s)s))

-- name: runner_of
select p.runner from gapless.pipeline p where p.name = %(name)s

-- name: set_bad_aside
select gapless.set_bad_aside(
  %(name)s, %(topic_ids)s::int[], %(partition_ids)s::int[], %(offsets)s::bigint[], %(reasons)s::text[], %(is_dropped)s
)

-- name: redriven_events
-- returns: gapless.features.spark.pipeline.bad:Redriven
select r.topic, r.topic_id, (r.event).partition_id as partition, (r.event).c_offset as "offset", r.due_ts,
  (r.event).key, (r.event).payload::text as value, (r.event).created_ts as timestamp,
  (r.event).headers::text as headers, (r.event).transaction_id::text as transaction_id,
  (r.event).event_type, (r.event).host_id, (r.event).user_id
from gapless.redriven_events(%(name)s, %(topics)s::text[], %(events_max)s) r

-- name: end_redriven
select gapless.end_redriven(
  %(name)s, %(topic_ids)s::int[], %(partition_ids)s::int[], %(offsets)s::bigint[],
  %(due)s::timestamptz[], %(reasons)s::text[]
)

-- name: pipeline
-- returns: gapless.features.spark.pipeline.position:PipelineState
select p.name, p.batch, p.planned, p.files
from gapless.pipeline p
where p.name = %(name)s

-- name: in_status
-- runner: null where no instance runs the pipeline, stands by for it, or waits to try it again.
-- returns: gapless.features.spark.section:PipelineRunner
select
  p.name,
  case
    when gapless.pipeline_runs(p.name) or gapless.pipeline_standbys(p.name) > 0
      then coalesce(p.runner, 'pipeline')
  end as runner
from gapless.pipeline p
order by p.name

-- name: pipelines
-- returns: gapless.features.spark.pipeline.position:PipelineStanding
select
  p.name,
  case
    when p.failing_ts is not null and (n.runs or n.standbys > 0) then 'retrying'
    when n.runs then 'running'
    when n.standbys > 0 then 'waiting'
    when p.error is not null then 'failed'
    else 'stopped'
  end as state,
  p.batch as batches, p.events, p.bad,
  (
    select coalesce(sum(g.lag), 0)::bigint from gapless.lag g
    where g.group_id = 'pipeline.' || p.name
  ) as lag,
  n.runs, n.standbys, p.runner, p.failing_ts,
  extract(epoch from clock_timestamp() - greatest(p.started_ts, p.done_ts, p.beat_ts))::float8 as silent_s,
  p.done_ts, p.target, p.error
from gapless.pipeline p
cross join lateral (
  select gapless.pipeline_runs(p.name) as runs, gapless.pipeline_standbys(p.name) as standbys
) n
order by p.name

-- name: archive
-- The events that an archive must hold: from begun up to place, exclusive.
-- returns: gapless.features.spark.pipeline.verify:Archive
select p.target, coalesce(p.begun, '{}') as begun, gapless.pipeline_place(p.name) as place
from gapless.pipeline p
where p.name = %(name)s

-- name: database_identity
-- A different cluster, or database, counts as another one; a copy that is brought back is the same.
select c.system_identifier || '.' || d.oid
from pg_control_system() c, pg_database d
where d.datname = current_database()

-- name: plan_files
select gapless.plan_files(%(name)s, %(batch)s, %(planned)s::jsonb, %(files)s::jsonb, %(epoch)s)

-- name: end_batch
select gapless.end_batch(
  %(name)s, %(batch)s, %(topic_ids)s::int[], %(partition_ids)s::int[],
  %(from_offsets)s::bigint[], %(to_offsets)s::bigint[], %(events)s, %(epoch)s
)

-- name: note_pipeline
select gapless.note_pipeline(%(name)s, %(error)s)

-- name: reset_pipeline
select gapless.reset_pipeline(%(name)s, %(goal)s)

-- name: remove_pipeline
select gapless.remove_pipeline(%(name)s)

-- name: holds
-- The topics whose events stay for a pipeline: those it has not read (none: 0), or that it is to archive.
-- returns: gapless.features.spark.pipeline.position:Hold
select t.name as topic,
  (
    select coalesce(sum(g.lag), 0)::bigint from gapless.lag g
    where g.group_id = 'pipeline.' || %(name)s::text and g.topic_id = t.topic_id
  ) as events,
  coalesce(t.archive = %(name)s::text, false) as is_archive
from gapless.topic t
where t.archive = %(name)s::text or exists (
  select from gapless.consumer_group c
  where c.group_id = 'pipeline.' || %(name)s::text and c.topic_id = t.topic_id
)
order by t.name

-- name: behind
-- The partitions of a member that have events to handle.
select c.group_id, c.topic_id, c.partition_id
from gapless.lease l
join gapless.consumer_offsets c on c.ctid = gapless.offset_row(l.group_id, l.topic_id, l.partition_id)
where l.owner = %(member_id)s and c.next_offset <= (
  select s.last_offset from gapless.log_segment s
  where s.topic_id = c.topic_id and s.partition_id = c.partition_id
  order by s.base_offset desc limit 1
)
