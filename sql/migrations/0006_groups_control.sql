-- What people do to groups: pause, seek, replay; and who did it.

-- A pause covers all partitions of a topic (partition_id -1, also those to come) or one. People share
-- one holder; a seek --pause has its own, so that it takes back what it did and nothing else.
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

-- A replay handles a range once and is then forgotten: it neither lags nor holds retention.
alter table gapless.consumer_group add column is_scratch boolean not null default false;

-- The range of a scratch group: from start_offset, up to stop_offset, exclusive, and to the end of the
-- last unit that begins before it.
alter table gapless.consumer_offsets
  add column start_offset bigint,
  add column stop_offset bigint;

comment on column gapless.consumer_group.is_scratch is
  'A replay''s own group: not counted as lagging, holds no retention, removed when it is done.';

-- When offsets were given: looks a time up without reading events. Those given before this migration
-- count as given now, which is late enough: nothing that is looked for lies before it.
alter table gapless.log_segment add column sequenced_ts timestamptz not null default now();
alter table gapless.log_segment alter column sequenced_ts set default clock_timestamp();

-- To find a transaction that named itself; those that did not are found by their xid.
create index outbox_message_transaction on gapless.outbox_message_t (transaction_id)
  where transaction_id is not null;

-- Who paused, sought, set going again, gave up or removed what, and how much it was.
create table gapless.audit (
  audit_id bigint generated always as identity primary key,
  at_ts timestamptz not null default clock_timestamp(),
  who text not null default session_user,
  action text not null,
  group_id text not null,
  topic_id int not null,
  partition_id int,
  detail jsonb not null default '{}'
);

create index audit_group on gapless.audit (group_id, topic_id, audit_id);
