-- What the checker knows of queue groups: who did what with an event, and every change of what is noted about it.

create table chaos.job (
  id bigint generated always as identity primary key,
  group_id text not null,
  topic text not null,
  partition_id int not null,
  c_offset bigint not null,
  tag text not null,
  who text not null,                   -- worker, or a client's name
  receipt text,                        -- of a client
  is_call boolean not null default false,    -- of an at-least-once handler: commits by itself
  xid xid8 not null default pg_current_xact_id(),
  at timestamptz not null default clock_timestamp()
);

create index on chaos.job (group_id, partition_id, c_offset);

-- Ranges as they are written, and floors as they are appended; the sweep sees what committed before it began.
create table chaos.queue_change (
  id bigint generated always as identity primary key,
  what text not null,                  -- range, or floor
  lease_no int not null,
  first_offset bigint not null,        -- floor: where it is now
  last_offset bigint,
  is_finished boolean,
  tries int,
  xid xid8 not null default pg_current_xact_id()
);

create function chaos.record_range() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  insert into chaos.queue_change (what, lease_no, first_offset, last_offset, is_finished, tries)
  values ('range', new.lease_no, new.first_offset, new.last_offset, new.deadline is null, new.tries);
  return null;
end
$$;

create trigger record_range after insert or update on gapless.queue_range
for each row execute function chaos.record_range();

create function chaos.record_floor() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  insert into chaos.queue_change (what, lease_no, first_offset)
  values ('floor', new.lease_no, new.next_offset);
  return null;
end
$$;

create trigger record_floor after insert on gapless.queue_floor
for each row execute function chaos.record_floor();
