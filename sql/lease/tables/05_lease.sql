-- The target and the owner of each partition. Issues epochs; the fence itself is in consumer_offsets.
create table gapless.lease (
  group_id text not null,
  topic_id int not null,
  partition_id int not null,
  lease_no int generated always as identity unique,   -- key of the partition's advisory lock
  target uuid,
  owner uuid,
  epoch bigint not null default 0,
  token uuid,
  worker_pid int,
  generation bigint not null default 0,
  error text,                                         -- why the partition stands still, for people
  error_ts timestamptz,
  acquired_ts timestamptz,
  primary key (group_id, topic_id, partition_id),
  foreign key (group_id, topic_id) references gapless.consumer_group
) with (fillfactor = 50);

comment on column gapless.lease.acquired_ts is 'When the newest owner took it.';

create table gapless.guard_planning ();

comment on table gapless.guard_planning is 'Locked while the plan of a group is made.';
