-- Endpoints that are called with the events of a topic. Each is a consumer group of its own, named webhook-<name>, so
-- that a dead one stops only itself; a shared one is a subscription of the one group webhooks-<topic> instead. `gapless
-- run --webhooks` delivers.
-- A secret is not stored: `secrets` says where the delivering worker finds it, env:NAME or file:PATH.

create table gapless.webhook (
  name text primary key,
  topic_id int not null references gapless.topic,
  url text not null,
  secrets text[] not null,             -- two while one replaces the other; each signs
  allow_http boolean not null,
  keeps_order boolean not null,        -- of a key, also behind an event that failed (park-key)
  concurrency int not null,            -- requests at a time
  rate double precision,               -- requests a second; null: no limit
  retry_delays_s int[],                -- null: the setting of the delivering worker
  added_by text not null default session_user,
  added_ts timestamptz not null default clock_timestamp(),
  removed_ts timestamptz,              -- its group is dropped as soon as no worker serves it
  shared boolean not null default false,
  constraint webhook_name_form check (name ~ '^[A-Za-z0-9_-]{1,100}$')
);

comment on table gapless.webhook is 'Endpoints that are called with the events of a topic (view webhooks).';
comment on column gapless.webhook.shared is
  'Whether it is a subscription of the group that webhooks of its topic share, and has none of its own.';

-- The state of an endpoint as delivering workers see it: written when it changes, every few seconds at most.
create table gapless.webhook_state (
  name text primary key references gapless.webhook on delete cascade,
  delivered bigint not null default 0,
  failed bigint not null default 0,
  last_error text,                     -- null: the last request succeeded
  last_ts timestamptz,
  circuit_ts timestamptz,              -- since when requests are only tried now and then; null: it is closed
  probe_ts timestamptz,                -- the time of the last such request
  attempts bigint not null default 0   -- that were recorded: the number of the newest one
) with (fillfactor = 50);

comment on table gapless.webhook_state is 'What became of the requests to each endpoint.';

-- The newest requests to each endpoint, of the last day: the setting webhookAttempts says how many.
create table gapless.webhook_attempt (
  name text not null references gapless.webhook_state on delete cascade,
  attempt_no bigint not null,          -- of the webhook: later ones have higher numbers
  at_ts timestamptz not null,
  took_ms real not null,
  partition_id int,                    -- null: the request had no events, it only tried the endpoint
  first_offset bigint,                 -- of the events that were sent
  event_type text,                     -- of the first one
  attempt int,                         -- of the unit
  status int,                          -- null: there was no answer
  answer text,                         -- the beginning of an answer other than 2xx, or the error in place of one
  primary key (name, attempt_no)
);

create index webhook_attempt_at on gapless.webhook_attempt (at_ts);

comment on table gapless.webhook_attempt is 'The newest requests to each endpoint (view webhook_attempts).';
