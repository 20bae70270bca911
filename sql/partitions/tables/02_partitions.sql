-- Changes of the number of partitions. A layout is the time in which a topic had one number of them: 0, 1, 2, … A
-- barrier is the last offset that a layout gave in a partition. An event waits until its group has passed the barriers
-- of the partitions that had the same keys before (I4).

-- No row for a topic whose number was never changed.
create table gapless.layout (
  topic_id int not null references gapless.topic,
  layout int not null,
  partitions int not null,
  began_ts timestamptz not null default clock_timestamp(),
  changed_by text not null default session_user,
  primary key (topic_id, layout),
  constraint layout_partitions_range check (partitions between 1 and 4096)
);

comment on table gapless.layout is 'The numbers of partitions that a topic had, and since when.';

-- Of ended layouts, for the partitions in which they placed events.
create table gapless.barrier (
  topic_id int not null,
  layout int not null,
  partition_id int not null,
  last_offset bigint not null,
  primary key (topic_id, layout, partition_id),
  foreign key (topic_id, layout) references gapless.layout,
  constraint barrier_offset_positive check (last_offset > 0)
);

comment on table gapless.barrier is
  'The last offset of an ended layout in a partition: a group has to pass it first.';
