-- What a group set aside: units that failed, wait, or are dead. Replaces the table dead_letter_queue,
-- which is a view from here on (views/dead_letter_queue.sql).

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
  attempts int not null,               -- calls of its handler that ended with an error, of all times
  crashes int not null default 0,      -- calls that began and did not end, since the last that did
  next_attempt_ts timestamptz,         -- waiting: not before
  reason text not null,                -- one line for people
  exception text not null,             -- the traceback
  exception_class text,
  sqlstate text,
  worker text,                         -- whose attempt was the last
  duration_ms double precision,        -- of the last attempt
  first_failed_ts timestamptz not null default clock_timestamp(),
  last_failed_ts timestamptz not null default clock_timestamp(),
  died_ts timestamptz,                 -- when it was given up; null: never was
  redriven_by text,                    -- who asked last to have it handled again, and when
  redriven_ts timestamptz,
  closed_ts timestamptz,               -- when it was handled after all, or discarded
  discarded_by text,
  discard_reason text,
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

create index dead_letter_open on gapless.dead_letter
  (group_id, topic_id, partition_id, state, next_attempt_ts)
  where state in ('waiting', 'parked', 'dead');
create index dead_letter_failed on gapless.dead_letter (last_failed_ts);

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
  primary key (group_id, topic_id, partition_id, c_offset)
);

create index dead_letter_event_transaction on gapless.dead_letter_event (transaction_id);

-- The keys of units that park others, and of those parked behind them: a later unit that touches one
-- is parked too. Digests, for a key may be longer than an index takes; equal ones only park more.
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

-- Calls of at-least-once handlers, for units at or after the group's next_offset: begun, or finished
-- before an earlier one was. The row goes when the offset passes it.
create table gapless.delivery (
  group_id text not null,
  topic_id int not null,
  partition_id int not null,
  first_offset bigint not null,
  last_offset bigint not null,
  attempts int not null,               -- calls so far, one that is going on included
  crashes int not null default 0,      -- calls that began and did not end, since the last that did
  finished boolean not null default false,
  primary key (group_id, topic_id, partition_id, first_offset)
) with (fillfactor = 70);

-- The old rows: neighbours of one transaction that failed alike were one unit.
with
marked as (
  select q.*,
    (
      q.transaction_id, q.exception, q.c_offset - 1
    ) is distinct from (
      lag(q.transaction_id) over w, lag(q.exception) over w, lag(q.c_offset) over w
    ) as begins_unit
  from gapless.dead_letter_queue q
  window w as (partition by q.group_id, q.topic_id, q.partition_id order by q.c_offset)
),
placed as (
  select m.*,
    max(m.c_offset) filter (where m.begins_unit) over (
      partition by m.group_id, m.topic_id, m.partition_id order by m.c_offset
    ) as first_offset
  from marked m
),
units as (
  insert into gapless.dead_letter (
    group_id, topic_id, partition_id, first_offset, last_offset, events, transaction_id, state,
    attempts, reason, exception, sqlstate, first_failed_ts, last_failed_ts, died_ts
  )
  select
    p.group_id, p.topic_id, p.partition_id, p.first_offset, max(p.c_offset), count(*),
    p.transaction_id, 'dead', max(p.attempts), coalesce(left(substring(p.exception from '[^\n]*$'), 500), ''),
    p.exception, max(p.sqlstate), min(p.created_dt), max(p.created_dt), max(p.created_dt)
  from placed p
  group by p.group_id, p.topic_id, p.partition_id, p.first_offset, p.transaction_id, p.exception
)
insert into gapless.dead_letter_event (
  group_id, topic_id, partition_id, c_offset, first_offset, message_id, host_id, user_id, key,
  transaction_id, event_type, payload, headers, created_ts
)
select
  p.group_id, p.topic_id, p.partition_id, p.c_offset, p.first_offset, p.message_id, p.host_id,
  p.user_id, p.key, p.transaction_id, p.event_type, p.payload, p.headers, p.created_ts
from placed p;

drop view if exists gapless.letters;
drop table gapless.dead_letter_queue;
