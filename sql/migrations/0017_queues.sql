-- Queue groups: any number of workers and of clients in any language share a partition, without order between
-- them (docs/decisions/0016-queue-groups.md). Nothing of the log is written for it: what is finished ahead of
-- the floor is a row for each range, and goes when the floor passes it. Old programs know ordered groups alone,
-- and go on with these.

alter table gapless.consumer_group
  add column mode text not null default 'ordered',
  add column block int,
  add column max_crashes int not null default 3,
  add constraint consumer_group_mode check (mode in ('ordered', 'queue')),
  add constraint consumer_group_block check ((mode = 'queue') = (block is not null) and block between 1 and 10000),
  add constraint consumer_group_crashes check (max_crashes between 1 and 1000);

comment on column gapless.consumer_group.mode is 'ordered: one worker a partition; queue: any number of them.';
comment on column gapless.consumer_group.block is
  'Queue: offsets are handed out in aligned blocks of so many, to one transaction at a time each.';
comment on column gapless.consumer_group.max_crashes is
  'Queue: what take() gave out so often and nobody answered for goes to the dead letter queue.';

-- Where a queue group is: all events below next_offset are finished or set aside. Appended, never updated: the
-- newest row of an index is found as fast while an old snapshot is held. consumer_offsets follows it.
create table gapless.queue_floor (
  lease_no int not null,
  version bigint not null,
  next_offset bigint not null,
  block int not null,
  is_paused boolean not null default false,
  place tid,                           -- where the row of consumer_offsets was then
  primary key (lease_no, version),
  constraint queue_floor_from_one check (next_offset >= 1)
);

comment on table gapless.queue_floor is 'Of queue groups: all below next_offset, in the newest row, is done.';

-- Ranges at or above the floor that were taken. A block is taken from its beginning on, so what of it has no row
-- yet is its end. Eight columns: with a ninth each row would be eight bytes longer. Without checks: they
-- are a tenth of what an INSERT costs, and only functions of gapless write here.
create table gapless.queue_range (
  first_offset bigint not null,
  last_offset bigint not null,
  lease_no int not null,
  tries smallint not null default 0,   -- times it was given out and nobody answered for it
  token uuid,                          -- of the holder of a reservation
  deadline timestamptz,                -- null: finished; else in hand until then, and open from then on
  holder text,                         -- who took it; null: a worker, whose COMMIT must be declared
  since_ts timestamptz,
  primary key (lease_no, first_offset)
) with (fillfactor = 90);

comment on table gapless.queue_range is
  'Of queue groups: ranges at or above the floor that are finished (deadline null), in hand, or open again.';

-- Who has a unit of a queue group in hand that waits: no other takes it before next_attempt_ts.
alter table gapless.dead_letter add column token uuid;

-- How many workers a supervisor runs for a queue group; null: it is an ordered one.
alter table gapless.member_group add column workers int;

-- It takes three arguments more now.
drop function if exists gapless.create_group(text, text, text);
