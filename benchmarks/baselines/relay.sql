-- The least that gives numbers after the commit: one process numbers what has come and notifies,
-- others read that, each those of one partition, and commit how far they are. No writer waits for
-- another, nobody polls; but there are no keys, groups or units, and whoever takes over from one of
-- them is not thought of.
create schema if not exists baseline;

create table baseline.relay_message_t (
  id bigint generated always as identity primary key,
  payload json
);

create table baseline.relay_log (
  number bigint generated always as identity,
  partition int not null,
  message_id bigint not null,
  primary key (partition, number)
);

create table baseline.relay_offset (
  partition int primary key,
  next_number bigint not null
);
