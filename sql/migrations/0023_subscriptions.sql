-- Many subscriptions in one group (functions/subscription/subscribe.sql): a group whose filter is `subscribed` takes
-- the events that one of its subscriptions matches. subscription_form has what several of them have in common,
-- so that matching an event is one look-up for each form, however many subscriptions there are.
-- A subscription that changes gets another number: what is known of a number stays true.
-- kept_in() and claim_kept() return a column more, so they are made anew; nothing is rewritten.

alter table gapless.group_filter add column subscribed boolean not null default false;

comment on column gapless.group_filter.subscribed is
  'Whether the group takes what its subscriptions match, and nothing else.';

create table gapless.subscription_form (
  form_id int generated always as identity primary key,
  group_id text not null,
  topic_id int not null,
  digest uuid not null,
  match_names text[] not null,
  match_paths text[] not null,
  condition jsonpath,
  unique (group_id, topic_id, digest),
  foreign key (group_id, topic_id) references gapless.consumer_group on delete cascade
);

comment on table gapless.subscription_form is
  'What subscriptions of a group have in common: a condition, and which params equal which parts of an event.';

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
  unique (group_id, topic_id, name),
  foreign key (group_id, topic_id) references gapless.consumer_group on delete cascade
);

comment on table gapless.subscription is
  'Subscriptions of groups; match_values: what an event must have, in the order of match_paths.';

-- By their hash: a value may be longer than what an index holds.
create index subscription_match on gapless.subscription (form_id, jsonb_hash_extended(match_values, 0));

alter table gapless.dead_letter_event add column subscriptions bigint[];

comment on column gapless.dead_letter_event.subscriptions is 'Which subscriptions it matched (subscription_id).';

drop function if exists gapless.kept_in(int, int, bigint, bigint, gapless.group_filter);
drop function if exists gapless.claim_kept(text, int, int, bigint, uuid, int, int, tid, text, int);
drop function if exists gapless.set_aside(
  text, int, int, bigint, bigint[], text, text, text, text, text, int, interval, boolean, text, double precision,
  bigint[]
);
