-- Consumer groups, their offsets, and who works on what: members and leases.
-- Lock order, to be free of deadlocks: consumer_group < member < lease < consumer_offsets.

create table gapless.consumer_group (
  group_id text not null,
  topic_id int not null references gapless.topic,
  group_no int generated always as identity unique,   -- names the group's NOTIFY channel
  generation bigint not null default 0,               -- counts plans
  planned_for uuid[] not null default '{}',           -- the members the newest plan knew
  created_ts timestamptz not null default now(),
  primary key (group_id, topic_id),
  constraint group_id_form check (group_id ~ '^[A-Za-z0-9._-]{1,249}$')
);

-- The row that every batch locks and compares (I6, I7): offset and effects are one commit.
create table gapless.consumer_offsets (
  group_id text not null,
  topic_id int not null,
  partition_id int not null,
  next_offset bigint not null default 1,
  epoch bigint not null default 0,
  token uuid,
  installed_offset bigint,             -- next_offset when this owner began; null after a clean release
  attempt_offset bigint,               -- careful mode: the unit tried last, and how often
  attempts int not null default 0,
  primary key (group_id, topic_id, partition_id),
  foreign key (group_id, topic_id) references gapless.consumer_group,
  constraint consumer_offsets_from_one check (next_offset >= 1)
) with (fillfactor = 50);

-- One row per running supervisor; a restart is a new member (never reuse an identity).
create table gapless.member (
  member_id uuid primary key,
  member_no int generated always as identity unique,  -- key of its presence lock
  name text not null,
  state text not null default 'active' check (state in ('active', 'draining')),
  capacity int check (capacity >= 0),
  beat bigint not null default 0,
  ttl interval not null,
  expires_at timestamptz not null,                    -- the database's clock, never a client's
  suspect_at timestamptz,
  suspect_beat bigint,
  backend_pid int not null,
  started_ts timestamptz not null default clock_timestamp()
) with (fillfactor = 50);

create table gapless.member_group (
  member_id uuid not null references gapless.member on delete cascade,
  group_id text not null,
  topic_id int not null,
  primary key (group_id, topic_id, member_id),
  foreign key (group_id, topic_id) references gapless.consumer_group
);

create index member_group_member on gapless.member_group (member_id);

-- Who should (target) and who does (owner). Issues epochs; the fence itself is in consumer_offsets.
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
  error text,                                         -- why the partition does not go on, for people
  error_ts timestamptz,
  primary key (group_id, topic_id, partition_id),
  foreign key (group_id, topic_id) references gapless.consumer_group
) with (fillfactor = 50);
