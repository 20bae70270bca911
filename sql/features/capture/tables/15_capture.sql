-- Tables as topics: the captured tables, and how. The triggers are on the tables themselves; each names its row.

create table gapless.captured (
  capture_id int generated always as identity primary key,
  table_name text not null,            -- schema and name at capture or mending, quoted where SQL needs it
  table_id oid not null,               -- of this cluster: after a restore it is no table's, and names count
  topic_id int not null,
  key text,                            -- the template; null: the primary key
  key_parts text[],                    -- the template, taken apart: text, column, text, column, … text
  key_numbers smallint[],              -- the numbers of its columns, so that one may be renamed
  columns text[],                      -- null: all there are
  column_numbers smallint[],
  old text not null,
  captured_by name not null default session_user,
  created_ts timestamptz not null default clock_timestamp(),
  constraint captured_old check (old in ('none', 'changed', 'all'))
);

comment on table gapless.captured is
  'Tables whose changes are published, in the transaction that makes them: gapless.capture(), gapless.captures.';
