-- Units that a group set aside: they failed, wait, or are dead (I9). dead_letter_queue is a view of it.

-- One row for each unit, so that a unit moves whole (I5) and an attempt updates one small row.
create table gapless.dead_letter (
  group_id text not null,
  topic_id int not null references gapless.topic,
  partition_id int not null,
  first_offset bigint not null,
  last_offset bigint not null,
  events int not null,
  transaction_id uuid not null,        -- of its first event
  state text not null,
  parks boolean not null default false,  -- later units that touch one of its keys are parked behind it
  attempts int not null,               -- calls of its handler that ended with an error, ever
  crashes int not null default 0,      -- calls that began and did not end, since the last that did
  next_attempt_ts timestamptz,         -- waiting: not before
  reason text not null,                -- one line for people
  exception text not null,             -- the traceback
  exception_class text,
  sqlstate text,
  worker text,                         -- the worker of the last attempt
  duration_ms double precision,        -- of the last attempt
  first_failed_ts timestamptz not null default clock_timestamp(),
  last_failed_ts timestamptz not null default clock_timestamp(),
  died_ts timestamptz,                 -- when it was given up; null: never
  redriven_by text,                    -- the person who last asked to have it handled again, and when
  redriven_ts timestamptz,
  closed_ts timestamptz,               -- when it was handled after all, or discarded
  discarded_by text,
  discard_reason text,
  timeline int,                        -- as that of its log_segment
  token uuid,                          -- of a queue group: its holder while it waits, until next_attempt_ts
  epoch bigint,
  due_set_ts timestamptz,
  -- Kept, since a regular expression for each of many units would take longer than the rest of a look at them.
  error_form text not null generated always as (regexp_replace(
    left(reason, 200),
    '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9]x[0-9a-f]+|[0-9a-f]*[0-9][0-9a-f]{15,}|[0-9]+(?:[.,:][0-9]+)*',
    '#', 'g'
  )) stored,
  primary key (group_id, topic_id, partition_id, first_offset),
  constraint dead_letter_state check (state in ('waiting', 'parked', 'dead', 'redriven', 'discarded')),
  constraint dead_letter_offsets check (last_offset >= first_offset and events >= 1),
  constraint dead_letter_due check ((state = 'waiting') = (next_attempt_ts is not null)),
  constraint dead_letter_discard check ((state = 'discarded') = (discard_reason is not null))
) with (fillfactor = 70);

comment on table gapless.dead_letter is
  'Units that a group passed without success. waiting: handled again at next_attempt_ts; parked: waits '
  'behind an earlier unit of its key; dead: waits for a person; redriven: was dead, handled since; '
  'discarded: given up by a person.';
comment on column gapless.dead_letter.epoch is
  'Of a unit that was handed out to a client again: the epoch of the lease under which that was.';
-- A clock that was ahead for a moment wrote times that are too far ahead: the start of each delay is kept beside the
-- time, so that the time can be corrected (heal_letters.sql).
comment on column gapless.dead_letter.due_set_ts is 'When next_attempt_ts was set (stamp_due.sql).';

comment on column gapless.dead_letter.error_form is
  'The reason without the numbers and ids in which errors of one cause differ.';

create index dead_letter_open on gapless.dead_letter
  (group_id, topic_id, partition_id, state, next_attempt_ts)
  where state in ('waiting', 'parked', 'dead');
create index dead_letter_failed on gapless.dead_letter (last_failed_ts);
create index dead_letter_closed on gapless.dead_letter (closed_ts)
  where state in ('redriven', 'discarded');
create index dead_letter_redriven on gapless.dead_letter (redriven_ts) where redriven_ts is not null;
create index dead_letter_due_set on gapless.dead_letter (due_set_ts) where state = 'waiting';

-- The events of those units, whole, so that retention may drop the log (I9).
create table gapless.dead_letter_event (
  group_id text not null,
  topic_id int not null references gapless.topic,
  partition_id int not null,
  c_offset bigint not null,
  first_offset bigint not null,        -- its unit
  message_id bigint not null,
  host_id text,
  user_id text,
  key text,
  transaction_id uuid not null,
  event_type text,
  payload json,
  headers jsonb,
  created_ts timestamptz not null,     -- when the event was published
  cause text,
  correlation uuid,
  is_kept boolean not null default true,
  subscriptions bigint[],
  primary key (group_id, topic_id, partition_id, c_offset)
);

comment on column gapless.dead_letter_event.is_kept is
  'Whether the handler saw it: false for events that the filter of its group passed.';
comment on column gapless.dead_letter_event.subscriptions is 'Which subscriptions it matched (subscription_id).';

create index dead_letter_event_transaction on gapless.dead_letter_event (transaction_id);
-- The dead letters of a chain, also where retention has dropped their events.
create index dead_letter_event_correlation on gapless.dead_letter_event (correlation)
  where correlation is not null;

-- The keys of units that park others, and of units that are parked behind them: a later unit that touches one is parked
-- too. Digests, because a key may be longer than an index takes; equal digests only park more.
create table gapless.dead_letter_key (
  group_id text not null,
  topic_id int not null,
  partition_id int not null,
  key_digest bytea not null,
  first_offset bigint not null,
  primary key (group_id, topic_id, partition_id, key_digest, first_offset)
);

create index dead_letter_key_unit on gapless.dead_letter_key
  (group_id, topic_id, partition_id, first_offset);

-- Locked, by group, while units of it are parked or released (park-key).
create table gapless.guard_keys (
  group_no int primary key
);

-- Calls of at-least-once handlers, for units at or after the group's next_offset: begun, or finished
-- before an earlier one was. The row goes when the offset passes it.
create table gapless.delivery (
  group_id text not null,
  topic_id int not null,
  partition_id int not null,
  first_offset bigint not null,
  last_offset bigint not null,
  attempts int not null,               -- calls so far, one that has not ended included
  crashes int not null default 0,      -- calls that began and did not end, since the last that did
  finished boolean not null default false,
  epoch bigint,
  began_ts timestamptz not null default clock_timestamp(),  -- when its newest call began, for people
  primary key (group_id, topic_id, partition_id, first_offset)
) with (fillfactor = 70);

-- The epoch under which a unit was delivered to a client: that client alone may commit or reject it.
comment on column gapless.delivery.epoch is
  'Of a unit that a client has in hand: the epoch of the lease under which it was handed out.';
