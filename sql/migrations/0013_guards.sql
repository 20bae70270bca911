-- Locks that nobody else can take: anybody who may connect may take any advisory lock, but to lock one of
-- these tables needs a right that nobody is given (I11). EXCLUSIVE, so that it costs no xid and no WAL.

create table gapless.guard_sequencing ();
create table gapless.guard_chunks ();
create table gapless.guard_topics ();
create table gapless.guard_retention ();
create table gapless.guard_planning ();

comment on table gapless.guard_sequencing is 'Locked while events are given offsets.';
comment on table gapless.guard_chunks is 'Locked while chunks are made.';
comment on table gapless.guard_topics is 'Locked while a topic is made.';
comment on table gapless.guard_retention is 'Locked while a chunk is closed or dropped.';
comment on table gapless.guard_planning is 'Locked while the plan of a group is made.';

-- Locked, by group, while units of it are parked or released (park-key).
create table gapless.guard_keys (
  group_no int primary key
);
