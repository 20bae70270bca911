-- The least that numbers events after the commit: one process numbers new events and notifies,
-- others read them, one for each partition, and commit their positions. No writer waits for
-- another, no process polls; but there are no keys, groups or units, and no process can take over
-- from another.
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
