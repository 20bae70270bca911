-- Scheduled events, and schedules: a waiting event is outside of the log until its time.
-- Programs that use neither read and write nothing here, except for a look of the sequencer.

create sequence gapless.scheduled_id_seq as bigint cache 1;

-- Rows come and go: publish_later() inserts, promote() moves due events into outbox_message_t, cancel() deletes. xid
-- and timeline identify the publishing transaction, as in outbox_message_t.
create table gapless.scheduled (
  deliver_at timestamptz not null,
  scheduled_id bigint not null default nextval('gapless.scheduled_id_seq'),
  xid xid8 not null default pg_current_xact_id(),
  timeline int not null,
  topic_id int not null,               -- no reference: it would lock the topic's row in each publish
  key text,
  host_id text,
  user_id text,
  transaction_id uuid,                 -- null: none was given, and no handler published it
  event_type text,
  payload json,
  headers jsonb,
  cause text,
  correlation uuid,
  dedupe_key text,                     -- free again when it is cancelled
  scheduled_by name not null default session_user,
  created_ts timestamptz not null default clock_timestamp(),
  counts_from timestamptz,
  primary key (deliver_at, scheduled_id),
  constraint scheduled_deliver_at_finite
    check (deliver_at between '1970-01-01 00:00+00' and '9000-01-01 00:00+00')
);

alter sequence gapless.scheduled_id_seq owned by gapless.scheduled.scheduled_id;

create unique index scheduled_id on gapless.scheduled (scheduled_id);
create index scheduled_xid on gapless.scheduled (xid, deliver_at);
create index scheduled_transaction on gapless.scheduled (transaction_id)
  where transaction_id is not null;
create index scheduled_correlation on gapless.scheduled (correlation) where correlation is not null;
create index scheduled_counts_from on gapless.scheduled (counts_from) where counts_from is not null;

comment on table gapless.scheduled is
  'Events that wait for deliver_at; then they move to outbox_message_t, and get their offsets.';
-- For a clock that was ahead for a moment: the start of a delay is kept beside the time, so that the time can be
-- corrected (heal_later.sql, fire_schedules.sql).
comment on column gapless.scheduled.counts_from is
  'When its transaction began, if its publisher gave a length; null: it gave a time.';

create table gapless.schedule (
  name text primary key,
  topic_id int not null,
  cron text,
  every interval,
  zone text not null,
  starts_at timestamptz not null,      -- due times of `every` are counted from here
  missed text not null,
  key text,
  event_type text,
  payload json,                        -- null: the schedule's name, and when it was due
  headers jsonb,
  next_due timestamptz,                -- null: never; trouble says why
  last_due timestamptz,                -- of the newest event; grows only
  fired bigint not null default 0,
  paused_ts timestamptz,
  trouble text,
  created_ts timestamptz not null default clock_timestamp(),
  jumped_ts timestamptz,
  ahead tstzmultirange not null default '{}',
  constraint schedule_name_form check (name ~ '^[A-Za-z0-9._-]{1,200}$'),
  constraint schedule_rhythm check ((cron is null) <> (every is null)),
  constraint schedule_missed check (missed in ('once', 'all', 'skip'))
);

create index schedule_due on gapless.schedule (next_due) where paused_ts is null;
create index schedule_last_due on gapless.schedule (last_due);

comment on table gapless.schedule is
  'What is published again and again; next_due moves in the transaction that publishes.';
comment on column gapless.schedule.jumped_ts is
  'Where it continued when due times before had been missed: of those from there to last_due each has its event.';
comment on column gapless.schedule.ahead is
  'Due times that have their events already, published by a clock that was ahead.';

create table gapless.guard_promoting ();

comment on table gapless.guard_promoting is 'Locked while events for later get into the log.';
