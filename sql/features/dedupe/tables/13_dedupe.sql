-- Dedupe: the keys that publishers gave to their events, each for as long as its topic's window.
--
-- A key must be unique whenever it was published, and old keys must go with their storage. So keys are in slots: new
-- ones go to one slot, the others are looked at, and a slot whose keys are all too old is emptied by TRUNCATE and used
-- again (functions/turn_dedupe_slots.sql). Four slots are enough, however long a window is: one that is written, one
-- that is being left, one that is looked at, one that is being emptied.

-- No reference to topic: it would lock the topic's row in every keyed publish.
-- MUST stay in the collation "C": an index in another one is wrong after an upgrade of the library.
create table gapless.dedupe (
  slot int not null,
  topic_id int not null,
  dedupe_key text collate "C" not null,
  transaction_id uuid not null,        -- of the event that came first
  message_id bigint,                   -- its id; null only inside of the publish
  published_ts timestamptz not null,
  digest bytea,                        -- of a request's body: tells a repetition from another request with the same key
  primary key (topic_id, dedupe_key, slot)
) partition by list (slot);

create table gapless.dedupe_0 partition of gapless.dedupe for values in (0);
create table gapless.dedupe_1 partition of gapless.dedupe for values in (1);
create table gapless.dedupe_2 partition of gapless.dedupe for values in (2);
create table gapless.dedupe_3 partition of gapless.dedupe for values in (3);

comment on table gapless.dedupe is 'The keys of keyed publishes, and the event that came first with each.';
comment on column gapless.dedupe.digest is 'Of the event that was published with the key; null: not given.';

-- The state that every keyed publish needs, one row. Updated a few times in a window.
create table gapless.dedupe_state (
  one boolean primary key default true check (one),
  slot int not null default 0,         -- new keys go here
  closing int,                         -- and here, while a transaction may write to it alone; null: none
  closes_at xid8,                      -- none does once those below this one are over; null: look again
  closed int[] not null default '{}',  -- are looked at, but not written to
  since_ts timestamptz not null default clock_timestamp()  -- when keys began to go to slot
);

insert into gapless.dedupe_state default values;

-- closed_ts: its last key came before; null: it is empty, or in use.
create table gapless.dedupe_slot (
  slot int primary key,
  closed_ts timestamptz
);

insert into gapless.dedupe_slot (slot) values (0), (1), (2), (3);
