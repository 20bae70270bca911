-- Topics whose newest event of each key is kept beside the log (functions/compaction/), and groups that begin with
-- those events. topic.compacted: whether it is one. compaction: the progress of each partition of it. latest: the
-- events. consumer_offsets.latest_upto: the group reads latest as long as its next_offset is below; null: the log.

create table gapless.compaction (
  topic_id int not null references gapless.topic,
  partition_id int not null,
  next_offset bigint not null,         -- all events before it are in latest
  keys bigint not null default 0,      -- put in, less those taken out: of one partition it may be negative
  keyless bigint not null default 0,   -- passed: events without a key, or for one group
  missing bigint not null default 0,   -- passed: missing from the log
  moved_ts timestamptz,                -- when next_offset last moved
  began_ts timestamptz not null default clock_timestamp(),    -- the topic's lowest one tells compactions apart
  primary key (topic_id, partition_id)
) with (fillfactor = 50);

comment on table gapless.compaction is 'How far each partition of a compacted topic was taken into latest.';

-- No reference to topic: it was half of a step's CPU where each key comes once. Rows come and go under a row of
-- compaction, which has its own; hold_compacted_topic.sql protects a topic instead.
create table gapless.latest (
  topic_id int not null,
  key_digest bytea not null,           -- a key may be longer than an index takes
  partition_id int not null,
  c_offset bigint not null,
  timeline int not null,
  id bigint not null,
  xid xid8 not null,
  key text,
  host_id text,
  user_id text,
  transaction_id uuid,
  event_type text,
  payload json not null,
  headers jsonb,
  created_ts timestamptz not null,
  cause text,
  correlation uuid,
  primary key (topic_id, key_digest)
);

create unique index latest_place on gapless.latest (topic_id, partition_id, c_offset);
create index latest_id on gapless.latest (id);

comment on table gapless.latest is
  'The newest event of each key of a compacted topic, unless that was a tombstone: gapless.latest().';
