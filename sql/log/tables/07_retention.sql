-- Retention: the beginning of the log, the contents of chunks, and the time for which a topic keeps its events.

-- The beginning of each partition since chunks were dropped; no row: offset 1. Earlier events are gone, even if
-- log_segment still has them.
create table gapless.log_start (
  topic_id int not null references gapless.topic,
  partition_id int not null,
  first_offset bigint not null,
  newest_ts timestamptz not null,      -- when the newest dropped event got its offset
  primary key (topic_id, partition_id),
  constraint log_start_moved check (first_offset > 1)
);

comment on table gapless.log_start is 'The oldest offset of partitions whose beginning was dropped.';

-- The place of a chunk in each partition that has events in it, written once no more of its events can get an offset.
-- next_offset: a group there needs nothing of the chunk (and of those before it); it is never inside a unit (I5).
create table gapless.chunk_end (
  upto bigint not null,                -- the chunk: its ids are below
  topic_id int not null references gapless.topic,
  partition_id int not null,
  next_offset bigint not null,
  events bigint not null,
  newest_ts timestamptz not null,      -- when the newest event before next_offset got its offset
  primary key (upto, topic_id, partition_id)
);

-- The progress of retention, one row.
create table gapless.retention_state (
  one boolean primary key default true check (one),
  closed_upto bigint not null default 1,   -- chunks up to here are in chunk_end, if they had events
  dropped_upto bigint not null default 1   -- the events of chunks up to here are gone
);

insert into gapless.retention_state default values;

create table gapless.guard_retention ();

comment on table gapless.guard_retention is 'Locked while a chunk is closed or dropped.';

-- A clock that is ahead for a moment deletes nothing (look_at_clock.sql).
create table gapless.clock_look (
  looked_ts timestamptz,    -- null: no look yet
  sure_ts timestamptz,      -- the last look before a step ahead
  doubted_ts timestamptz,   -- where that step went to; null: none
  is_step boolean not null default false    -- there were looks all the time
);

insert into gapless.clock_look default values;

comment on table gapless.clock_look is 'The looks at the clock: one row (look_at_clock.sql).';
