-- Remove the leases of partitions that a topic no longer has, once the group has handled all their events, with the
-- units set aside; returns the number of removed leases. Their offsets stay, and so do their events. A retired
-- partition comes back with the number of partitions, when the group is moved back before its end, or when a dead
-- letter of it is to be handled again.
-- locks: called by sync(), which has the consumer_group row; waits for no lock: a lease that is locked
--   now is retired the next time. The topic MUST be locked: a number raised meanwhile would lack the lease.
create or replace function gapless.retire(_group_id text, _topic_id int) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  here gapless.topic;
  old record;
  behind int;
  retired int := 0;
begin
  if not gapless.has_finished(_group_id, _topic_id) then
    return 0;
  end if;
  select * into here from gapless.topic t
  where t.topic_id = _topic_id
  for share skip locked;
  for old in
    select l.partition_id, l.epoch from gapless.lease l
    where l.group_id = _group_id and l.topic_id = _topic_id
      and l.partition_id >= here.partitions
    order by l.partition_id
    for update skip locked
  loop
    select c.passed into behind from gapless.consumer_offsets c
    where c.group_id = _group_id and c.topic_id = _topic_id
      and c.partition_id = old.partition_id
    for update skip locked;
    if found and gapless.is_finished(_group_id, _topic_id, old.partition_id)
      and not gapless.owes_letters(_group_id, _topic_id, old.partition_id)
    then
      -- Its worker may not have looked again.
      perform gapless.announce(_group_id, _topic_id, old.partition_id, behind, here.layout);
      delete from gapless.lease l
      where l.group_id = _group_id and l.topic_id = _topic_id
        and l.partition_id = old.partition_id;
      -- Its worker is told to stop; should the partition come back before, it is fenced (I7). The lease may have an
      -- epoch whose owner has not put its fence in yet: the epoch is kept, so that none is ever given out twice.
      update gapless.consumer_offsets c
      set epoch = greatest(c.epoch, old.epoch), token = null, installed_offset = null, passed = here.layout
      where c.group_id = _group_id and c.topic_id = _topic_id
        and c.partition_id = old.partition_id;
      retired := retired + 1;
    end if;
  end loop;
  return retired;
end
$$;
