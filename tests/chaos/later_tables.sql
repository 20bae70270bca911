-- What the checker knows of events for later and of schedules: what began to wait, who took it away, which due
-- times a schedule moved over, and what time it was said to be.

create table chaos.wait (
  id bigint generated always as identity primary key,
  what text not null,                  -- INSERT or DELETE
  scheduled_id bigint not null,
  deliver_at timestamptz not null,
  tag text,
  scheduled_xid xid8 not null,         -- of the transaction that published it
  application text not null default current_setting('application_name'),
  xid xid8 not null default pg_current_xact_id(),
  began timestamptz not null default transaction_timestamp(),
  at timestamptz not null default clock_timestamp()
);

create function chaos.record_wait() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  event gapless.scheduled := case when tg_op = 'DELETE' then old else new end;
begin
  insert into chaos.wait (what, scheduled_id, deliver_at, tag, scheduled_xid)
  values (tg_op, event.scheduled_id, event.deliver_at, event.event_type, event.xid);
  return null;
end
$$;

create trigger record_wait after insert or delete on gapless.scheduled
for each row execute function chaos.record_wait();

-- Every move of a schedule's next due time.
create table chaos.fired (
  id bigint generated always as identity primary key,
  name text not null,
  old_due timestamptz not null,
  next_due timestamptz not null,
  old_last timestamptz,
  last_due timestamptz,
  events bigint not null,              -- that it published, as it says itself
  xid xid8 not null default pg_current_xact_id(),
  began timestamptz not null default transaction_timestamp(),
  at timestamptz not null default clock_timestamp()
);

create function chaos.record_fired() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  insert into chaos.fired (name, old_due, next_due, old_last, last_due, events)
  values (new.name, old.next_due, new.next_due, old.last_due, new.last_due, new.fired - old.fired);
  return null;
end
$$;

create trigger record_fired after update on gapless.schedule
for each row when ((old.next_due, old.last_due, old.fired)
  is distinct from (new.next_due, new.last_due, new.fired))
execute function chaos.record_fired();

-- By how much the clock is ahead, from at on; confirmed: nobody sees the step before it any more.
create table chaos.clock_step (
  id bigint generated always as identity primary key,
  ahead interval not null,
  at timestamptz not null default clock_timestamp(),
  confirmed timestamptz
);

create or replace function gapless.clock()
returns timestamptz
language sql
volatile
as $$
  select clock_timestamp()
    + coalesce((select s.ahead from chaos.clock_step s order by s.id desc limit 1), interval '0')
$$;
