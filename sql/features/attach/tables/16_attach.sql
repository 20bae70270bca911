-- Outboxes that exist: tables whose rows are copied into a topic, those that were there and those that come.

create table gapless.attached (
  attachment_id int generated always as identity primary key,
  table_name text not null,            -- schema and name, quoted where SQL wants it, when it was attached
  table_id oid not null,               -- of this cluster: after a restore it is no table's, and the name counts
  topic_id int not null,
  id_column text not null,
  map jsonb not null,                  -- column of an event: column of the table, or null
  places jsonb,                        -- where old consumers say how far they are: checked_places()
  -- Rows up to this id were copied, those below it in the order of their ids.
  copied_to bigint not null default (-9223372036854775808),
  live_ts timestamptz,                 -- since when the trigger copies; null: not yet
  attached_by name not null default session_user,
  created_ts timestamptz not null default clock_timestamp(),
  -- Of id and of what is mapped, in table table_id: so that one may be renamed (attached_columns()).
  column_numbers jsonb not null default '{}',
  changes_before bigint                -- updates and deletes that are no news; null: any is said to do no harm
);

comment on table gapless.attached is
  'Tables whose rows are copied into a topic: gapless.attach(), gapless.attachments.';

-- What became of a row, once: also what a place of an old consumer means in the log.
create table gapless.attached_row (
  attachment_id int not null,
  source_id bigint not null,
  message_id bigint not null,
  primary key (attachment_id, source_id)
);

-- Statements whose rows the trigger could not copy. Which rows: those without an attached_row.
create table gapless.attached_miss (
  miss_no bigint generated always as identity primary key,
  attachment_id int not null,
  rows bigint not null,
  error text not null,
  noted_ts timestamptz not null default clock_timestamp()
);

-- Groups that stand for an old consumer. ready: the old one handles events; switched: the group does.
create table gapless.attached_group (
  attachment_id int not null references gapless.attached on delete cascade,
  group_id text not null,
  state text not null check (state in ('ready', 'switched')),
  changed_ts timestamptz not null default clock_timestamp(),
  primary key (attachment_id, group_id)
);
