-- Schemas of payloads (set_schema()): versions of a JSON Schema for a topic and an event type. The server does not read
-- them: Python's publish(), the gateway and groups with that option check events against them.
-- topic.schemas_no changes with each change of a topic's schemas, and differs in a recreated database schema, so that a
-- reader sees by one row that nothing changed.
-- A version number is used once, so removed versions stay, with removed_ts.

create table gapless.topic_schema (
  topic_id int not null references gapless.topic,
  event_type text not null,
  version int not null,
  schema json not null,
  compatibility text not null,
  set_by text not null default session_user,
  set_ts timestamptz not null default clock_timestamp(),
  removed_ts timestamptz,
  primary key (topic_id, event_type, version),
  constraint topic_schema_compatibility check (compatibility in ('backward', 'forward', 'full', 'none'))
);

comment on table gapless.topic_schema is
  'Versions of the JSON Schema of a type of events in a topic; event_type * is for types without one of their own.';
