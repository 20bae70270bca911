-- Stages: where tasks of a cluster leave events until all of a batch is there. Unlogged: they cost no
-- WAL, and whoever takes one counts its rows, since a crash of the server empties it.

-- Make the stage of an attempt, and return the name of its table for COPY. In the same transaction as
-- the COPY, so that an attempt that dies leaves nothing.
create or replace function gapless.open_stage(token uuid)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  name text := 'stage_' || replace(open_stage.token::text, '-', '');
begin
  insert into gapless.stage (token) values (open_stage.token);
  execute format(
    'create unlogged table gapless.%I (topic_id int, key text, host_id text, user_id text,'
    ' transaction_id uuid, event_type text, payload json, headers jsonb)',
    name);
  execute format('grant insert on gapless.%I to %I', name, session_user);
  return name;
end
$$;

-- Publish what lies in a stage, in the order it was sent, and drop it; events is how many that must
-- be. Call it in the transaction that fenced the batch.
create or replace function gapless.publish_stage(token uuid, events bigint)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set synchronize_seqscans = off    -- a scan that joins another one begins in the middle
as $$
declare
  name text := 'stage_' || replace(publish_stage.token::text, '-', '');
  taken bigint;
begin
  execute format(
    'insert into gapless.outbox_message_t (topic_id, key, host_id, user_id, transaction_id,'
    ' event_type, payload, headers) select s.topic_id, s.key, gapless.canonical_host(s.host_id), s.user_id,'
    ' s.transaction_id, s.event_type, s.payload, s.headers from gapless.%I s',
    name);
  get diagnostics taken = row_count;
  if taken <> publish_stage.events then
    raise exception 'stage % has % events instead of %: the server has crashed since; run the batch again',
      publish_stage.token, taken, publish_stage.events
      using errcode = 'GL001';
  end if;
  execute format('drop table gapless.%I', name);
  delete from gapless.stage s where s.token = publish_stage.token;
end
$$;

-- Drop stages that nobody will take: those named, and those older than an interval.
create or replace function gapless.drop_stages(tokens uuid[], older_than interval default null)
returns int
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  doomed uuid;
  dropped int := 0;
begin
  for doomed in
    delete from gapless.stage s
    where s.token = any (drop_stages.tokens)
      or s.created_ts < clock_timestamp() - drop_stages.older_than
    returning s.token
  loop
    execute format('drop table if exists gapless.%I', 'stage_' || replace(doomed::text, '-', ''));
    dropped := dropped + 1;
  end loop;
  return dropped;
end
$$;

-- Say, in the transaction that publishes a batch, that it does; false when it was published before.
-- Waits for another transaction that is publishing the same batch right now. Of a sink only the
-- newest batches are kept: an older one than those was published, too.
create or replace function gapless.fence_batch(sink_id text, batch_id bigint, events bigint)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  if exists (
    select from gapless.sink_batch b
    where b.sink_id = fence_batch.sink_id and b.batch_id > fence_batch.batch_id
  ) then
    return false;
  end if;
  insert into gapless.sink_batch (sink_id, batch_id, events)
  values (fence_batch.sink_id, fence_batch.batch_id, fence_batch.events)
  on conflict do nothing;
  if not found then
    return false;
  end if;
  delete from gapless.sink_batch b
  where b.sink_id = fence_batch.sink_id and b.batch_id < fence_batch.batch_id - 100;
  return true;
end
$$;
