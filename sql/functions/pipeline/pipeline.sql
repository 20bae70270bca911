-- Pipelines: where each is, and the one statement that ends a batch. A pipeline's position is that of the
-- consumer group pipeline.<name>, so status shows its lag, and retention waits for it.

-- Make a pipeline known; start counts when it is new: earliest or latest. Repeat freely.
create or replace function gapless.register_pipeline(
  name text, topics text[], start text, target text
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  topic text;
begin
  insert into gapless.pipeline (name, target)
  values (register_pipeline.name, register_pipeline.target)
  on conflict (name) do update set target = excluded.target
  where pipeline.target <> excluded.target;
  foreach topic in array register_pipeline.topics loop
    perform gapless.create_group('pipeline.' || register_pipeline.name, topic, register_pipeline.start);
  end loop;
  update gapless.pipeline p set begun = gapless.pipeline_place(p.name)
  where p.name = register_pipeline.name and p.begun is null and p.batch = 0;
end
$$;

-- The offsets a pipeline is at, by topic and partition.
create or replace function gapless.pipeline_place(name text)
returns jsonb
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select jsonb_object_agg(x.name, x.places)
  from (
    select t.name, jsonb_object_agg(c.partition_id, c.next_offset) as places
    from gapless.consumer_offsets c
    join gapless.topic t using (topic_id)
    where c.group_id = 'pipeline.' || pipeline_place.name
    group by t.name
  ) x
$$;

-- Move a pipeline from one place to the next, in the transaction of its effects. The n-th of the arrays
-- belong together. Refused with GL409 unless the pipeline is at this batch and at these offsets: then
-- another run has been faster, and nothing of this one may commit.
-- locks: the pipeline's row, then its consumer_offsets rows
create or replace function gapless.end_batch(
  name text, batch bigint, topic_ids int[], partition_ids int[],
  from_offsets bigint[], to_offsets bigint[], events bigint
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  moved int;
begin
  update gapless.pipeline p
  set batch = p.batch + 1, planned = null, files = null, error = null,
    events = p.events + end_batch.events, done_ts = clock_timestamp()
  where p.name = end_batch.name and p.batch = end_batch.batch;
  if not found then
    raise exception 'pipeline % is not at batch % any more: it runs elsewhere, too', name, batch
      using errcode = 'GL409';
  end if;
  insert into gapless.consumer_offsets (group_id, topic_id, partition_id)
  select 'pipeline.' || end_batch.name, u.topic_id, u.partition_id
  from unnest(end_batch.topic_ids, end_batch.partition_ids) as u (topic_id, partition_id)
  on conflict do nothing;
  perform set_config('gapless.seeking', pg_current_xact_id()::text, true);
  update gapless.consumer_offsets c set next_offset = u.to_offset
  from unnest(
    end_batch.topic_ids, end_batch.partition_ids, end_batch.from_offsets, end_batch.to_offsets
  ) as u (topic_id, partition_id, from_offset, to_offset)
  where c.group_id = 'pipeline.' || end_batch.name and c.topic_id = u.topic_id
    and c.partition_id = u.partition_id and c.next_offset = u.from_offset;
  get diagnostics moved = row_count;
  if moved <> cardinality(end_batch.topic_ids) then
    raise exception 'pipeline % has been moved to other offsets meanwhile', name
      using errcode = 'GL409';
  end if;
end
$$;

-- Write down the files of a batch before they get their names: from here on the batch is finished by
-- moving them, however often that is interrupted, and never written again.
create or replace function gapless.plan_files(name text, batch bigint, planned jsonb, files jsonb)
returns boolean
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  update gapless.pipeline p set planned = plan_files.planned, files = plan_files.files
  where p.name = plan_files.name and p.batch = plan_files.batch and p.planned is null
  returning true
$$;

-- What stops a pipeline, for status; and when a run of it began.
create or replace function gapless.note_pipeline(name text, error text)
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  update gapless.pipeline p
  set error = note_pipeline.error,
    started_ts = case when note_pipeline.error is null then clock_timestamp() else p.started_ts end
  where p.name = note_pipeline.name
$$;

-- Put a pipeline to the beginning or the end of what the log holds; the caller holds its run lock.
-- Refused with GL409 while a batch's files are on their way.
create or replace function gapless.reset_pipeline(name text, goal text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  update gapless.pipeline p set batch = p.batch + 1, error = null
  where p.name = reset_pipeline.name and p.planned is null;
  if not found then
    raise exception 'pipeline % has a batch whose files are on their way: run it with --once first', name
      using errcode = 'GL409';
  end if;
  perform gapless.hold_start(array(
    select g.topic_id from gapless.consumer_group g
    where g.group_id = 'pipeline.' || reset_pipeline.name
  ));
  perform set_config('gapless.seeking', pg_current_xact_id()::text, true);
  update gapless.consumer_offsets c
  set next_offset = case reset_pipeline.goal when 'latest' then e.next_offset else e.first_offset end
  from gapless.topic t
  cross join lateral gapless.ends(array[t.name]) e
  where c.group_id = 'pipeline.' || reset_pipeline.name and c.topic_id = t.topic_id
    and e.partition_id = c.partition_id;
  update gapless.pipeline p set begun = gapless.pipeline_place(p.name)
  where p.name = reset_pipeline.name;
end
$$;

-- Is a run of the pipeline going on, here or on another machine? It holds the lock of its name.
create or replace function gapless.pipeline_runs(name text)
returns boolean
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select exists (
    select from pg_locks k
    where k.locktype = 'advisory' and k.classid = 7427005::oid and k.objsubid = 2 and k.granted
      and k.objid::bigint = hashtext(pipeline_runs.name)::bigint & 4294967295
      and k.database = (select d.oid from pg_database d where d.datname = current_database())
  )
$$;

-- Forget a pipeline, where it was, and that retention waits for it; what it wrote stays, and so does the
-- log. The caller holds its run lock. gapless.audit keeps what it was and how far it had come.
-- locks: the pipeline's row, the topics', then as drop_group()
create or replace function gapless.remove_pipeline(name text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  here gapless.pipeline;
begin
  delete from gapless.pipeline p where p.name = remove_pipeline.name returning * into here;
  insert into gapless.audit (action, group_id, topic_id, detail)
  select 'remove-pipeline', 'pipeline.' || remove_pipeline.name, t.topic_id,
    jsonb_build_object(
      'target', here.target, 'events', here.events, 'batch', here.batch, 'files', here.files,
      'archive', coalesce(t.archive = remove_pipeline.name, false)
    )
  from gapless.topic t
  where t.archive = remove_pipeline.name or exists (
    select from gapless.consumer_group g
    where g.group_id = 'pipeline.' || remove_pipeline.name and g.topic_id = t.topic_id
  );
  update gapless.topic t set archive = null where t.archive = remove_pipeline.name;
  perform gapless.drop_group('pipeline.' || remove_pipeline.name);
end
$$;
