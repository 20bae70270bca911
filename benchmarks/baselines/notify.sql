-- The shortest way from a commit to a listener that PostgreSQL has: NOTIFY in the publishing
-- transaction, one consumer, who reads what is above the last id it saw (and so loses late commits).
create schema if not exists baseline;

create table baseline.notify_message_t (
  id bigint generated always as identity primary key,
  payload json
);

create function baseline.notify_listener()
returns trigger
language plpgsql
as $$
begin
  perform pg_notify('baseline_notify', '');
  return null;
end
$$;

create trigger notify_listener
  after insert on baseline.notify_message_t
  for each statement execute function baseline.notify_listener();
