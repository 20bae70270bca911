-- Take away the leases of partitions that a topic no longer has, once the group has handled all that is
-- in them, what it set aside included; returns how many went. Their offsets stay, and so do their
-- events. A retired partition comes back with the number of partitions, when the group is moved back
-- before its end, or when a dead letter of it is to be handled again.
-- locks: called by sync(), which has the consumer_group row; waits for no one: what is locked now is
--   retired the next time. The topic MUST be locked: a number raised meanwhile would lack the lease.
create or replace function gapless.retire(group_id text, topic_id int)
returns int
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  here gapless.topic;
  old record;
  behind int;
  retired int := 0;
begin
  if not gapless.has_finished(group_id, topic_id) then
    return 0;
  end if;
  select * into here from gapless.topic t
  where t.topic_id = retire.topic_id
  for share skip locked;
  for old in
    select l.partition_id from gapless.lease l
    where l.group_id = retire.group_id and l.topic_id = retire.topic_id
      and l.partition_id >= here.partitions
    order by l.partition_id
    for update skip locked
  loop
    select c.passed into behind from gapless.consumer_offsets c
    where c.group_id = retire.group_id and c.topic_id = retire.topic_id
      and c.partition_id = old.partition_id
    for update skip locked;
    if found and gapless.is_finished(group_id, topic_id, old.partition_id)
      and not gapless.owes_letters(group_id, topic_id, old.partition_id)
    then
      -- Its worker may not have looked again.
      perform gapless.announce(group_id, topic_id, old.partition_id, behind, here.layout);
      delete from gapless.lease l
      where l.group_id = retire.group_id and l.topic_id = retire.topic_id
        and l.partition_id = old.partition_id;
      -- It is told to go; should the partition come back before, it is fenced (I7).
      update gapless.consumer_offsets c
      set token = null, installed_offset = null, passed = here.layout
      where c.group_id = retire.group_id and c.topic_id = retire.topic_id
        and c.partition_id = old.partition_id;
      retired := retired + 1;
    end if;
  end loop;
  return retired;
end
$$;

-- Is there a lease to retire? One look, no lock.
create or replace function gapless.has_finished(group_id text, topic_id int)
returns boolean
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select exists (
    select from gapless.topic t
    join gapless.lease l using (topic_id)
    where t.topic_id = has_finished.topic_id and t.partitions_ever > t.partitions
      and l.group_id = has_finished.group_id and l.partition_id >= t.partitions
      and gapless.is_finished(l.group_id, l.topic_id, l.partition_id)
      and not gapless.owes_letters(l.group_id, l.topic_id, l.partition_id)
  )
$$;

-- Does a unit that was set aside wait for the worker of this partition? Dead ones wait for a person.
create or replace function gapless.owes_letters(group_id text, topic_id int, partition_id int)
returns boolean
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select exists (
    select from gapless.dead_letter d
    where d.group_id = owes_letters.group_id and d.topic_id = owes_letters.topic_id
      and d.partition_id = owes_letters.partition_id and d.state in ('waiting', 'parked')
  )
$$;

-- Give a retired partition a lease again, for there is something to handle in it.
-- locks: the consumer_group row first, so that sync() does not retire it right now
create or replace function gapless.reopen(group_id text, topic_id int, partition_id int)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform from gapless.topic t
  where t.topic_id = reopen.topic_id and reopen.partition_id >= t.partitions;
  if not found then
    return;
  end if;
  perform from gapless.consumer_group g
  where g.group_id = reopen.group_id and g.topic_id = reopen.topic_id
  for no key update;
  perform from gapless.lease l
  where l.group_id = reopen.group_id and l.topic_id = reopen.topic_id
    and l.partition_id = reopen.partition_id;
  if not found then
    insert into gapless.lease (group_id, topic_id, partition_id, epoch)
    select c.group_id, c.topic_id, c.partition_id, c.epoch from gapless.consumer_offsets c
    where c.group_id = reopen.group_id and c.topic_id = reopen.topic_id
      and c.partition_id = reopen.partition_id
    on conflict do nothing;
    update gapless.consumer_group g set planned_for = '{}'
    where g.group_id = reopen.group_id and g.topic_id = reopen.topic_id;
  end if;
end
$$;

-- A group that is moved back meets the barriers again, and needs the lease of a retired partition.
-- MUST reset both: what was admitted says nothing about partitions that were moved back as well.
-- An AFTER trigger, for claims: a BEFORE trigger locks the row first, whatever its WHEN says.
create or replace function gapless.meet_barriers_again()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update gapless.consumer_offsets c set layout = 0, passed = 0
  where c.group_id = new.group_id and c.topic_id = new.topic_id
    and c.partition_id = new.partition_id and c.layout + c.passed > 0;
  perform gapless.reopen(new.group_id, new.topic_id, new.partition_id);
  return null;
end
$$;

do $$
begin
  if not exists (
    select from pg_trigger t
    where t.tgrelid = 'gapless.consumer_offsets'::regclass and t.tgname = 'meet_barriers_again'
  ) then
    create trigger meet_barriers_again
      after update of next_offset on gapless.consumer_offsets
      for each row when (new.next_offset < old.next_offset)
      execute function gapless.meet_barriers_again();
  end if;
end
$$;
