-- The least that gives numbers after the commit: one process numbers what has come and notifies,
-- another one reads that and commits how far it is. No writer waits for another, nobody polls; but
-- there are no partitions, groups or units, and whoever takes over from either is not thought of.
create schema if not exists baseline;

create table baseline.relay_message_t (
  id bigint generated always as identity primary key,
  payload json
);

create table baseline.relay_log (
  number bigint generated always as identity primary key,
  message_id bigint not null
);

create table baseline.relay_offset (next_number bigint not null);

insert into baseline.relay_offset values (1);
