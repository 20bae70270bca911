-- Retention: where the log begins, what is in a chunk, and how long a topic keeps its events.

-- Where a partition begins since chunks were dropped; no row: at offset 1. What lies before is gone,
-- whatever log_segment still says.
create table gapless.log_start (
  topic_id int not null references gapless.topic,
  partition_id int not null,
  first_offset bigint not null,
  newest_ts timestamptz not null,      -- when the newest of what is gone got its offset
  primary key (topic_id, partition_id),
  constraint log_start_moved check (first_offset > 1)
);

comment on table gapless.log_start is 'The oldest offset of partitions whose beginning was dropped.';

-- What a chunk means to the partitions that have events in it, written once no more of its events can
-- get an offset. next_offset: whoever is there needs nothing of the chunk (and of those before it);
-- it is never inside a unit (I5).
create table gapless.chunk_end (
  upto bigint not null,                -- the chunk: its ids are below
  topic_id int not null references gapless.topic,
  partition_id int not null,
  next_offset bigint not null,
  events bigint not null,
  newest_ts timestamptz not null,      -- when the newest of all before next_offset got its offset
  primary key (upto, topic_id, partition_id)
);

-- How far retention is, one row.
create table gapless.retention_state (
  one boolean primary key default true check (one),
  closed_upto bigint not null default 1,   -- chunks up to here are in chunk_end, if they had events
  dropped_upto bigint not null default 1   -- the events of chunks up to here are gone
);

insert into gapless.retention_state default values;

alter table gapless.topic
  add column archive text,
  add column overrun text[] not null default '{}',
  add constraint topic_retention_positive check (retention > interval '0');

comment on column gapless.topic.retention is 'Events younger than this are kept; null: all are, for ever.';
comment on column gapless.topic.archive is
  'The pipeline that has to have archived events before they are dropped, also if it never ran.';
comment on column gapless.topic.overrun is
  'Groups that retention does not wait for: events may be dropped that they have not handled.';

-- Where an archive begins, by topic and partition; one that is not named there: at 1.
alter table gapless.pipeline add column begun jsonb;

create index dead_letter_closed on gapless.dead_letter (closed_ts)
  where state in ('redriven', 'discarded');
create index audit_at on gapless.audit (at_ts);
