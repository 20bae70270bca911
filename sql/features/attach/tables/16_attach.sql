-- Attached outboxes: tables whose rows are copied into a topic, present and new ones.

create table gapless.attached (
  attachment_id int generated always as identity primary key,
  table_name text not null,            -- schema and name when it was attached, quoted where SQL needs it
  table_id oid not null,               -- of this cluster: after a restore it is no table's, and the name counts
  topic_id int not null,
  id_column text not null,
  map jsonb not null,                  -- column of an event: column of the table, or null
  places jsonb,                        -- where old consumers keep their positions: checked_places()
  -- Rows up to this id were copied, those below it in the order of their ids.
  copied_to bigint not null default (-9223372036854775808),
  live_ts timestamptz,                 -- since when the trigger copies; null: not yet
  attached_by name not null default session_user,
  created_ts timestamptz not null default clock_timestamp(),
  -- Of the id and the mapped columns, in table table_id: so that one may be renamed (attached_columns()).
  column_numbers jsonb not null default '{}',
  changes_before bigint                -- acknowledged updates and deletes; null: all are declared harmless
);

comment on table gapless.attached is
  'Tables whose rows are copied into a topic: gapless.attach(), gapless.attachments.';

-- The event of each row: also the meaning of an old consumer's place in the log.
create table gapless.attached_row (
  attachment_id int not null,
  source_id bigint not null,
  message_id bigint not null,
  primary key (attachment_id, source_id)
);

-- Statements whose rows the trigger could not copy: the rows without an attached_row.
create table gapless.attached_miss (
  miss_no bigint generated always as identity primary key,
  attachment_id int not null,
  rows bigint not null,
  error text not null,
  noted_ts timestamptz not null default clock_timestamp()
);

-- Groups that replace an old consumer. ready: the old one handles events; switched: the group does.
create table gapless.attached_group (
  attachment_id int not null references gapless.attached on delete cascade,
  group_id text not null,
  state text not null check (state in ('ready', 'switched')),
  changed_ts timestamptz not null default clock_timestamp(),
  primary key (attachment_id, group_id)
);
