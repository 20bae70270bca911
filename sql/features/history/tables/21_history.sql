-- The past of groups and topics, by the minute (record_history.sql): charts read it, and nothing else depends on it.
-- A minute is a number: minutes since 1970. Bytes of a group and minute: docs/why/decisions.

-- A group of a topic; a topic (without a group); or the whole database (without a topic). The numbers are those of the
-- newest recording, so that one in which nothing changed writes nothing.
create table gapless.history_series (
  series_no int generated always as identity primary key,
  topic_id int references gapless.topic on delete cascade,
  group_id text,
  done bigint,                         -- the sum of the offsets that the group has passed, or of the topic's last ones
  lag bigint,
  oldest bigint,
  handled bigint,
  published bigint,
  dead_letters bigint,
  members bigint,
  foreign key (group_id, topic_id) references gapless.consumer_group on delete cascade,
  constraint history_series_of_topic check (group_id is null or topic_id is not null)
) with (fillfactor = 50);

create unique index history_series_name on gapless.history_series (coalesce(topic_id, 0), coalesce(group_id, ''));
create index history_series_topic on gapless.history_series (topic_id, group_id);

comment on table gapless.history_series is 'Groups and topics whose past is recorded; with the newest numbers of each.';
comment on column gapless.history_series.oldest is
  'When the oldest unhandled event was published, in seconds since 1970: it stays the same while a group stands still.';

-- The present hour. Rows are inserted, and deleted when the hour is packed; none is updated.
create table gapless.history_minute (
  series_no int not null references gapless.history_series on delete cascade,
  minute int not null,
  lag bigint,
  oldest bigint,
  handled bigint,                      -- since the minute before; null: unknown
  published bigint,
  dead_letters bigint,
  members bigint,
  primary key (series_no, minute)
);

comment on table gapless.history_minute is
  'Changes of a series in the present hour: the numbers hold until its next row, in all recorded minutes.';

-- An earlier hour of a series. minutes: bit n is set if it has numbers of the n-th minute; the others are as before.
create table gapless.history_hour (
  series_no int not null references gapless.history_series on delete cascade,
  hour int not null,
  minutes bigint not null,
  lag bytea not null,                  -- these are of pack_numbers()
  oldest bytea not null,
  handled bytea not null,
  published bytea not null,
  dead_letters bytea not null,
  members bytea not null,
  primary key (series_no, hour)
);

comment on table gapless.history_hour is
  'An hour of history_minute, in a few bytes a minute: gapless.history() reads it.';

-- The minutes that were recorded: a minute without its bit is unknown, and not as before.
create table gapless.history_clock (
  hour int primary key,
  minutes bigint not null,
  is_packed boolean not null default false
) with (fillfactor = 10);

comment on table gapless.history_clock is 'The recorded minutes of each hour: bit n is its n-th minute.';

create table gapless.history_state (
  one boolean primary key default true check (one),
  keep_hours int,                      -- null: nothing was recorded yet; 0: switched off
  last_minute int,                     -- the newest recording; null: the next one does not continue it
  last_ts timestamptz,
  open_xid xid,                        -- the oldest transaction that was open then
  passed int[] not null default '{}'   -- series that it passed, for a transaction was deleting them
) with (fillfactor = 10);

insert into gapless.history_state default values;

comment on table gapless.history_state is 'The newest recording of the past, one row: it is locked while one is made.';
