-- Consumer groups, their offsets, and actions of people: pause, seek, replay; with an audit of them.
-- Lock order, to be free of deadlocks: consumer_group < member < lease < consumer_offsets.

create table gapless.consumer_group (
  group_id text not null,
  topic_id int not null references gapless.topic,
  group_no int generated always as identity unique,   -- names the group's NOTIFY channel
  generation bigint not null default 0,               -- counts plans
  planned_for uuid[] not null default '{}',           -- the members the newest plan knew
  created_ts timestamptz not null default now(),
  is_scratch boolean not null default false,
  mode text not null default 'ordered',
  block int,
  max_crashes int not null default 3,
  stands_for text,
  primary key (group_id, topic_id),
  constraint group_id_form check (group_id ~ '^[A-Za-z0-9._-]{1,249}$'),
  constraint consumer_group_mode check (mode in ('ordered', 'queue')),
  constraint consumer_group_block check ((mode = 'queue') = (block is not null) and block between 1 and 10000),
  constraint consumer_group_crashes check (max_crashes between 1 and 1000)
);

comment on column gapless.consumer_group.is_scratch is
  'A replay''s own group: not counted as lagging, holds no retention, removed when it is done.';
comment on column gapless.consumer_group.mode is 'ordered: one worker a partition; queue: any number of them.';
comment on column gapless.consumer_group.block is
  'Queue: offsets are handed out in aligned blocks of so many, to one transaction at a time each.';
comment on column gapless.consumer_group.max_crashes is
  'Queue: an event that take() gave out this often without an answer becomes a dead letter.';
comment on column gapless.consumer_group.stands_for is
  'Of a scratch group: the group whose direct messages it takes; null: its own.';

-- The row that every batch locks and compares (I6, I7): offset and effects are one commit.
create table gapless.consumer_offsets (
  group_id text not null,
  topic_id int not null,
  partition_id int not null,
  next_offset bigint not null default 1,
  epoch bigint not null default 0,
  token uuid,
  installed_offset bigint,             -- next_offset when this owner began; null after a clean release
  attempt_offset bigint,               -- careful mode: the unit tried last, and its attempts
  attempts int not null default 0,
  layout int not null default 0,       -- layouts up to it may be handled here: their blockers are done
  passed int not null default 0,       -- no event of earlier layouts is left here, and waiting partitions were notified
  start_offset bigint,                 -- the oldest offset where the group began or was moved to; null: unknown
  stop_offset bigint,                  -- of a scratch group: its end, exclusive, and to the end of the last unit
  stopped_at bigint,                   -- the offset that the next event had when that was found
  filter_no int not null default 0,
  latest_upto bigint,
  primary key (group_id, topic_id, partition_id),
  foreign key (group_id, topic_id) references gapless.consumer_group,
  constraint consumer_offsets_from_one check (next_offset >= 1)
) with (fillfactor = 50);

-- A group that was found beyond the end of the log (forced there, or restored without the end of its log) stays where
-- it is until a person chooses where it continues: otherwise it would pass the next events unhandled.
comment on column gapless.consumer_offsets.stopped_at is
  'Where the log ended when the group was found beyond it: nothing is claimed until gapless seek.';
-- A claim without a filter looks up nothing more. A number is used once: no claim mistakes a changed filter for the one
-- that it read. -1: a topic that takes direct messages, and no filter.
comment on column gapless.consumer_offsets.filter_no is 'The filter that claims have to apply (group_filter); 0: none.';
comment on column gapless.consumer_offsets.latest_upto is
  'The group began with the newest event of each key: below this offset it reads latest. Null: it reads the log.';

-- A pause covers all partitions of a topic (partition_id -1, also later ones) or one. People share one holder; a seek
-- --pause has a holder of its own, so that it ends only its own pause.
create table gapless.group_pause (
  group_id text not null,
  topic_id int not null,
  partition_id int not null default -1,
  holder uuid not null default '00000000-0000-0000-0000-000000000000',
  reason text,
  paused_by text not null default session_user,
  paused_ts timestamptz not null default clock_timestamp(),
  primary key (group_id, topic_id, partition_id, holder),
  foreign key (group_id, topic_id) references gapless.consumer_group on delete cascade,
  constraint group_pause_partition check (partition_id >= -1)
);

comment on table gapless.group_pause is
  'What is paused. A paused partition keeps its place in the plan, and has no worker.';

-- Actions of people: pause, seek, resume, discard, remove, with the amount. who: the role of a session and, behind
-- it, the caller for which it acts: for a gateway, the key or the token.
create table gapless.audit (
  audit_id bigint generated always as identity primary key,
  at_ts timestamptz not null default clock_timestamp(),
  who text not null default
    session_user || coalesce(' (' || nullif(current_setting('gapless.asked_by', true), '') || ')', ''),
  action text not null,
  group_id text not null,
  topic_id int not null,
  partition_id int,
  detail jsonb not null default '{}'
);

create index audit_group on gapless.audit (group_id, topic_id, audit_id);
create index audit_at on gapless.audit (at_ts);
