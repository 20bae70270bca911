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

create table gapless.guard_retention ();

comment on table gapless.guard_retention is 'Locked while a chunk is closed or dropped.';

-- A clock that is ahead for a moment destroys nothing (look_at_clock.sql).
create table gapless.clock_look (
  looked_ts timestamptz,    -- null: nobody has looked yet
  sure_ts timestamptz,      -- the last look before a step ahead
  doubted_ts timestamptz,   -- where that step went to; null: none
  is_step boolean not null default false    -- somebody looked all the time
);

insert into gapless.clock_look default values;

comment on table gapless.clock_look is 'What those saw who looked at the clock: one row (look_at_clock.sql).';
