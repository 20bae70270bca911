-- SQL conditions of subscriptions (functions/subscription/make_condition.sql): a function for each distinct text, which
-- forms refer to, and what of a subscription was stopped, for its condition raised or was slow. Its events wait from
-- there on (resume_subscription.sql). claim_kept() and subscribe() get an argument more, so they are made anew.

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

alter table gapless.subscription_form add column condition_digest uuid references gapless.condition;

create table gapless.subscription_stop (
  subscription_id bigint not null references gapless.subscription on delete cascade,
  partition_id int not null,
  from_offset bigint not null,
  reason text not null,
  stopped_ts timestamptz not null default clock_timestamp(),
  primary key (subscription_id, partition_id)
);

comment on table gapless.subscription_stop is
  'Subscriptions whose condition raised or was slow in a partition: their events wait from from_offset on.';

drop function if exists gapless.claim_kept(text, int, int, bigint, uuid, int, int, tid, text, int);
drop function if exists gapless.check_subscription(text, jsonb, jsonb, text);
drop function if exists gapless.subscribe(text, text, text, jsonb, jsonb, text, interval);
