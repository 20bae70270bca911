-- Groups that take some events only: by a filter (set_filter()), by subscriptions, or by SQL conditions of these.
-- consumer_offsets.filter_no is the filter that a claim has to know.

create table gapless.group_filter (
  group_id text not null,
  topic_id int not null,
  filter_no int generated always as identity unique,
  event_types text[],
  condition jsonpath,
  params jsonb not null default '{}',
  set_by text not null default session_user,
  set_ts timestamptz not null default clock_timestamp(),
  subscribed boolean not null default false,
  primary key (group_id, topic_id),
  foreign key (group_id, topic_id) references gapless.consumer_group on delete cascade
);

comment on table gapless.group_filter is
  'Which events a group takes: those of one of event_types (null: any) for which condition (null: none) holds.';
comment on column gapless.group_filter.subscribed is
  'Whether the group takes the events that its subscriptions match, and nothing else.';

-- The number of events that each filter matched and passed, and for which it could not be evaluated. Written by
-- claim_kept() in the claiming transaction, so it counts committed claims; groups without a filter have no row here.
create table gapless.filter_tally (
  group_id text not null,
  topic_id int not null,
  partition_id int not null,
  filter_no int not null,
  kept bigint not null,
  passed bigint not null,
  unasked bigint not null,
  unasked_offset bigint,
  unasked_why text,
  unasked_ts timestamptz,
  primary key (group_id, topic_id, partition_id),
  foreign key (group_id, topic_id) references gapless.consumer_group on delete cascade
) with (fillfactor = 50);

comment on table gapless.filter_tally is
  'What the filter of a group kept and passed of a partition, and the last event about which it could not be asked.';

-- SQL conditions of subscriptions (make_condition()): a function for each distinct text, to which forms refer.
create type gapless.condition_event as (
  c_offset bigint, event_type text, key text, payload jsonb, headers jsonb, host_id text, user_id text,
  transaction_id uuid, created_ts timestamptz
);

create type gapless.condition_subscription as (subscription_id bigint, name text, params jsonb);

create table gapless.condition (
  digest uuid primary key,
  expression text not null,
  made_by text not null default session_user,
  made_ts timestamptz not null default clock_timestamp()
);

comment on table gapless.condition is
  'Texts of SQL conditions; function condition_<digest> is what each was compiled to.';

-- So that matching an event is one look-up for each form, however many subscriptions there are.
create table gapless.subscription_form (
  form_id int generated always as identity primary key,
  group_id text not null,
  topic_id int not null,
  digest uuid not null,
  match_names text[] not null,
  match_paths text[] not null,
  condition jsonpath,
  condition_digest uuid references gapless.condition,
  unique (group_id, topic_id, digest),
  foreign key (group_id, topic_id) references gapless.consumer_group on delete cascade
);

comment on table gapless.subscription_form is
  'What subscriptions of a group have in common: a condition, and which params equal which parts of an event.';

-- A subscription that changes gets another number: facts about a number stay true.
create table gapless.subscription (
  subscription_id bigint generated always as identity primary key,
  group_id text not null,
  topic_id int not null,
  name text not null,
  form_id int not null references gapless.subscription_form,
  params jsonb not null,
  match_values jsonb not null,
  set_by text not null default session_user,
  set_ts timestamptz not null default clock_timestamp(),
  expires_after interval,
  renewed_at interval not null default '0',
  unique (group_id, topic_id, name),
  foreign key (group_id, topic_id) references gapless.consumer_group on delete cascade
);

comment on table gapless.subscription is
  'Subscriptions of groups; match_values: what an event must have, in the order of match_paths.';
comment on column gapless.subscription.expires_after is
  'It expires when it is not renewed for so long; null: never.';
comment on column gapless.subscription.renewed_at is
  'When it was made or renewed last, on expiry_clock.';

-- By their hash: a value may be longer than an index entry.
create index subscription_match on gapless.subscription (form_id, jsonb_hash_extended(match_values, 0));
create index subscription_expiring on gapless.subscription ((renewed_at + expires_after))
  where expires_after is not null;

-- A condition raised or was slow, or an endpoint is dead; resume_subscription.sql ends it.
create table gapless.subscription_stop (
  subscription_id bigint not null references gapless.subscription on delete cascade,
  partition_id int not null,
  from_offset bigint not null,
  reason text not null,
  stopped_ts timestamptz not null default clock_timestamp(),
  primary key (subscription_id, partition_id)
);

comment on table gapless.subscription_stop is
  'Subscriptions that are stopped in a partition (a condition raised, an endpoint is dead): their events wait there.';

-- Idle time is read from one clock that stands still while no supervisor runs (expire_subscriptions.sql): so a look
-- does not write ten thousand rows.
create table gapless.expiry_clock (
  only_row boolean primary key default true check (only_row),
  watched interval not null default '0',
  looked_ts timestamptz not null default clock_timestamp()
);

insert into gapless.expiry_clock default values;

comment on table gapless.expiry_clock is
  'The time in which a supervisor looked after subscriptions that expire: time without one does not count.';
