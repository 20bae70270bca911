-- The classic outbox: the publishing transaction takes its offset from one counter row, which it
-- keeps locked until its commit, and a trigger notifies the consumers once per statement.
create schema if not exists baseline;

create table baseline.classic_counter (
  counter_id int primary key,
  next_offset bigint not null
);

insert into baseline.classic_counter values (1, 1);

create table baseline.classic_message_t (
  c_offset bigint not null unique,
  id bigint generated always as identity primary key,
  topic_id int not null default 1,
  key text,
  host_id text,
  user_id text,
  transaction_id uuid,
  event_type text,
  payload json,
  headers jsonb,
  created_ts timestamptz not null default clock_timestamp()
);

create function baseline.classic_notify()
returns trigger
language plpgsql
as $$
begin
  perform pg_notify('baseline_classic', '');
  return null;
end
$$;

create trigger classic_notify
  after insert on baseline.classic_message_t
  for each statement execute function baseline.classic_notify();
