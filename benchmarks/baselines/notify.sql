-- The shortest way from a commit to a listener in PostgreSQL: the event itself, in a NOTIFY of
-- the publishing transaction. Nobody can read it later, and commits that notify queue behind each
-- other.
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
  perform pg_notify('baseline_notify', new.payload::text);
  return null;
end
$$;

create trigger notify_listener
  after insert on baseline.notify_message_t
  for each row execute function baseline.notify_listener();
