-- Spark as a producer, and pipelines: the published batches of queries, and the progress of pipelines.

-- The batches of a Spark query that are in the log. The row is written in the transaction that publishes the batch: a
-- batch that is sent again finds it, and nothing is published twice.
create table gapless.sink_batch (
  sink_id text not null,
  batch_id bigint not null,
  events bigint not null default 0,
  committed_ts timestamptz not null default clock_timestamp(),
  primary key (sink_id, batch_id)
);

-- Rows that a task has sent and no batch has taken yet: one unlogged table for each attempt, named stage_<token>.
-- Leftovers of failed jobs are dropped by age.
create table gapless.stage (
  token uuid primary key,
  created_ts timestamptz not null default clock_timestamp()
);

-- A pipeline and its present batch. Its position is that of the consumer group of its name: the two move together, in
-- the transaction that makes a batch's effects visible, or that ends the batch.
create table gapless.pipeline (
  name text primary key,
  batch bigint not null default 0,             -- finished batches
  planned jsonb,                               -- the end of the present batch; null: there is none
  files jsonb,                                 -- files that are written, and are being moved to their names
  events bigint not null default 0,
  target text not null,
  error text,
  started_ts timestamptz,
  done_ts timestamptz,
  begun jsonb,                                 -- the beginning of an archive, by topic and partition; default 1
  epoch bigint not null default 0,             -- of the newest run: an earlier one cannot commit
  runner text,                                 -- the process of the newest run, and its last sign of life
  beat_ts timestamptz,
  failing_ts timestamptz,                      -- since when each try has failed; null: the last one has not
  bad bigint not null default 0,               -- events that it could not take: dropped, or dead letters
  constraint pipeline_name_form check (name ~ '^[A-Za-z0-9._-]{1,200}$'),
  constraint pipeline_files_of_a_batch check (files is null or planned is not null)
);
