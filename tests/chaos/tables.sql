-- What a run leaves behind for the checker. Nothing here is unique but what a correct producer needs:
-- a duplicate has to be recorded, not prevented by the test itself.
--
-- The histories are written by triggers in the very transactions they tell of. Those of a row are
-- serialised by its lock, so their ids are in the order of the commits.
create schema chaos;

-- What the handlers did, an event a row.
create table chaos.effect (
  id bigint generated always as identity primary key,
  group_id text not null,
  topic text not null,
  partition_id int not null,
  c_offset bigint not null,
  transaction_id uuid,
  position int not null,               -- in the unit, as its handler was given it; from 0
  key text,
  tag text,
  seen jsonb,                          -- every column of the event, as the handler was given it
  epoch bigint,                        -- of the fence, as the handler's transaction saw it
  pid int,                             -- of the worker process
  backend_pid int not null default pg_backend_pid(),
  application text not null default current_setting('application_name'),
  xid xid8 not null default pg_current_xact_id(),
  at timestamptz not null default clock_timestamp()
);

-- What the at-least-once handlers did: a row when a call begins, and one when it has ended well.
create table chaos.call (
  id bigint generated always as identity primary key,
  group_id text not null,
  topic text not null,
  partition_id int not null,
  first_offset bigint not null,
  last_offset bigint not null,
  phase text not null,                 -- begin or end
  attempt int not null,                -- as it was told
  idempotency_key text not null,
  seen jsonb,                 -- every column of each of its events, as it was given them
  pid int not null,
  at timestamptz not null default clock_timestamp()
);

-- What producers write beside their events, in the same transaction.
create table chaos.business (
  id bigint generated always as identity primary key,
  attempt uuid not null,
  producer text not null,
  order_key text not null,
  events int not null,
  xid xid8 not null default pg_current_xact_id(),
  at timestamptz not null default clock_timestamp()
);

-- What makes a retry safe after a COMMIT without an answer: a producer inserts its order here first.
create table chaos.order_done (
  order_key text primary key,
  attempt uuid not null
);

-- Every version of a fence row that moved, or changed its owner.
create table chaos.cursor (
  id bigint generated always as identity primary key,
  group_id text not null,
  topic_id int not null,
  partition_id int not null,
  old_offset bigint not null,
  next_offset bigint not null,
  old_epoch bigint not null,
  epoch bigint not null,
  old_token uuid,
  token uuid,
  made boolean not null,               -- the row is new
  seek boolean not null,
  backend_pid int not null default pg_backend_pid(),
  application text not null default current_setting('application_name'),
  xid xid8 not null default pg_current_xact_id(),
  at timestamptz not null default clock_timestamp()
);

create function chaos.record_cursor() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  insert into chaos.cursor (
    group_id, topic_id, partition_id, old_offset, next_offset, old_epoch, epoch, old_token, token,
    made, seek
  )
  values (
    new.group_id, new.topic_id, new.partition_id,
    case when tg_op = 'INSERT' then new.next_offset else old.next_offset end, new.next_offset,
    case when tg_op = 'INSERT' then new.epoch else old.epoch end, new.epoch,
    case when tg_op = 'UPDATE' then old.token end, new.token,
    tg_op = 'INSERT',
    current_setting('gapless.seeking', true) is not distinct from pg_current_xact_id()::text
  );
  return null;
end
$$;

create trigger record_made after insert on gapless.consumer_offsets
for each row execute function chaos.record_cursor();

create trigger record_moved after update on gapless.consumer_offsets
for each row when (
  (old.next_offset, old.epoch, old.token) is distinct from (new.next_offset, new.epoch, new.token)
)
execute function chaos.record_cursor();

insert into chaos.cursor (
  group_id, topic_id, partition_id, old_offset, next_offset, old_epoch, epoch, token, made, seek
)
select group_id, topic_id, partition_id, next_offset, next_offset, epoch, epoch, token, true, false
from gapless.consumer_offsets;

-- Who owned what, at which epoch, and to whom it was promised.
create table chaos.lease (
  id bigint generated always as identity primary key,
  group_id text not null,
  topic_id int not null,
  partition_id int not null,
  old_owner uuid,
  owner uuid,
  old_owner_lives boolean not null,    -- as a member, when the row changed
  old_target uuid,
  target uuid,
  old_epoch bigint not null,
  epoch bigint not null,
  token uuid,
  worker_pid int,
  xid xid8 not null default pg_current_xact_id(),
  at timestamptz not null default clock_timestamp()
);

create function chaos.record_lease() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  insert into chaos.lease (
    group_id, topic_id, partition_id, old_owner, owner, old_owner_lives, old_target, target,
    old_epoch, epoch, token, worker_pid
  )
  values (
    new.group_id, new.topic_id, new.partition_id, old.owner, new.owner,
    exists (select from gapless.member m where m.member_id = old.owner), old.target, new.target,
    old.epoch, new.epoch, new.token, new.worker_pid
  );
  return null;
end
$$;

create trigger record_lease after update on gapless.lease
for each row when (
  (old.owner, old.target, old.epoch, old.token)
  is distinct from (new.owner, new.target, new.epoch, new.token)
)
execute function chaos.record_lease();

-- Who was a member, and until when.
create table chaos.member (
  id bigint generated always as identity primary key,
  what text not null,                  -- INSERT or DELETE
  member_id uuid not null,
  name text not null,
  xid xid8 not null default pg_current_xact_id(),
  at timestamptz not null default clock_timestamp()
);

create function chaos.record_member() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  insert into chaos.member (what, member_id, name)
  values (
    tg_op, case when tg_op = 'INSERT' then new.member_id else old.member_id end,
    case when tg_op = 'INSERT' then new.name else old.name end
  );
  return null;
end
$$;

create trigger record_member after insert or delete on gapless.member
for each row execute function chaos.record_member();

-- Every change of a dead letter: its event was settled, or is waiting again, in that transaction.
create table chaos.letter (
  id bigint generated always as identity primary key,
  what text not null,                  -- INSERT, UPDATE or DELETE
  group_id text not null,
  topic_id int not null,
  partition_id int not null,
  c_offset bigint not null,
  status text not null,
  xid xid8 not null default pg_current_xact_id(),
  at timestamptz not null default clock_timestamp()
);

create function chaos.record_letter() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  letter gapless.dead_letter_event := case when tg_op = 'DELETE' then old else new end;
begin
  insert into chaos.letter (what, group_id, topic_id, partition_id, c_offset, status)
  values (
    tg_op, letter.group_id, letter.topic_id, letter.partition_id, letter.c_offset,
    coalesce(
      (
        select d.state from gapless.dead_letter d
        where (d.group_id, d.topic_id, d.partition_id, d.first_offset)
          = (letter.group_id, letter.topic_id, letter.partition_id, letter.first_offset)
      ), 'gone')
  );
  return null;
end
$$;

create trigger record_letter after insert or update or delete on gapless.dead_letter_event
for each row execute function chaos.record_letter();

create function chaos.record_state() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  insert into chaos.letter (what, group_id, topic_id, partition_id, c_offset, status)
  select 'UPDATE', e.group_id, e.topic_id, e.partition_id, e.c_offset, new.state
  from gapless.dead_letter_event e
  where (e.group_id, e.topic_id, e.partition_id, e.first_offset)
    = (new.group_id, new.topic_id, new.partition_id, new.first_offset);
  return null;
end
$$;

create trigger record_state after update of state on gapless.dead_letter
for each row when (old.state <> new.state) execute function chaos.record_state();

-- Every version of a unit that was set aside.
create table chaos.aside (
  id bigint generated always as identity primary key,
  what text not null,                  -- INSERT, UPDATE or DELETE
  group_id text not null,
  topic_id int not null,
  partition_id int not null,
  first_offset bigint not null,
  last_offset bigint not null,
  old_state text,
  state text not null,
  attempts int not null,
  crashes int not null,
  due timestamptz,                     -- next_attempt_ts
  failed timestamptz not null,         -- last_failed_ts
  asked timestamptz,                   -- redriven_ts
  reason text not null,
  exception_class text,
  sqlstate text,
  discard_reason text,
  xid xid8 not null default pg_current_xact_id(),
  at timestamptz not null default clock_timestamp()
);

create index effect_place on chaos.effect (group_id, topic, partition_id, c_offset);
create index aside_unit on chaos.aside (group_id, partition_id, first_offset);

create function chaos.record_aside() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  unit gapless.dead_letter := case when tg_op = 'DELETE' then old else new end;
begin
  insert into chaos.aside (
    what, group_id, topic_id, partition_id, first_offset, last_offset, old_state, state, attempts,
    crashes, due, failed, asked, reason, exception_class, sqlstate, discard_reason
  )
  values (
    tg_op, unit.group_id, unit.topic_id, unit.partition_id, unit.first_offset, unit.last_offset,
    case when tg_op <> 'INSERT' then old.state end, unit.state, unit.attempts, unit.crashes,
    unit.next_attempt_ts, unit.last_failed_ts, unit.redriven_ts, unit.reason, unit.exception_class,
    unit.sqlstate, unit.discard_reason
  );
  return null;
end
$$;

create trigger record_aside after insert or update or delete on gapless.dead_letter
for each row execute function chaos.record_aside();

-- An offset, once given, never changes (I3): nobody may update a segment.
create table chaos.moved_segment (
  topic_id int not null,
  partition_id int not null,
  base_offset bigint not null,
  at timestamptz not null default clock_timestamp()
);

create function chaos.record_segment() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  insert into chaos.moved_segment values (old.topic_id, old.partition_id, old.base_offset);
  return null;
end
$$;

create trigger record_segment after update on gapless.log_segment
for each row execute function chaos.record_segment();

-- What a user's own triggers publish of, at once or at COMMIT.
create table chaos.parcel (
  id bigint generated always as identity primary key,
  topic text not null,
  key text,
  tag text not null,
  payload json not null,
  transaction_id uuid,                 -- the explicit one, if it has one
  late boolean not null
);

create function chaos.publish_parcel() returns trigger
language plpgsql
as $$
begin
  perform gapless.publish(
    new.topic, new.payload, new.key, new.tag, transaction_id => new.transaction_id
  );
  return null;
end
$$;

create trigger publish_parcel after insert on chaos.parcel
for each row when (not new.late) execute function chaos.publish_parcel();

create constraint trigger publish_parcel_late after insert on chaos.parcel
deferrable initially deferred
for each row when (new.late) execute function chaos.publish_parcel();
