-- Release the client's partitions that are planned for another member, or are paused, and take those that are planned
-- for it. among: only these are released while the client has units of them in hand; null: all. Waits for no session:
-- locked rows are left for the next time.
-- Lease and fence are changed in one transaction, so the rule of acquire() holds because the second is not waited for:
-- a late owner's batch has the consumer_offsets row locked. An advisory lock is looked for, not kept: it shows that a
-- worker's session is still at work. The epoch is above both, because a retired partition may have left one
-- (retire.sql).
-- locks: lease rows, then consumer_offsets rows, skipping those that are locked; (7427003, lease_no) by try
create or replace function gapless.take_leases(_member_id uuid, _group_id text, _topic_id int, _among int[])
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  each record;
  fence gapless.consumer_offsets;
  was_held boolean := false;
begin
  for each in
    select l.*, gapless.is_paused(l.group_id, l.topic_id, l.partition_id) as is_paused,
      not exists (
        select from gapless.consumer_offsets c
        where c.ctid = gapless.offset_row(l.group_id, l.topic_id, l.partition_id)
          and c.epoch = l.epoch and c.token = l.token
      ) as is_fenced
    from gapless.lease l
    where l.group_id = _group_id and l.topic_id = _topic_id
      and (l.owner = _member_id or l.target = _member_id)
      and (
        l.owner is distinct from l.target
        or gapless.is_paused(l.group_id, l.topic_id, l.partition_id)
        or not exists (
          select from gapless.consumer_offsets c
          where c.ctid = gapless.offset_row(l.group_id, l.topic_id, l.partition_id)
            and c.epoch = l.epoch and c.token = l.token
        )
      )
    order by l.partition_id
    for update of l skip locked
  loop
    -- A seek has taken the fence: as a worker that finds itself fenced, begin anew.
    if each.owner = _member_id and each.is_fenced then
      update gapless.lease l set owner = null, token = null where l.lease_no = each.lease_no;
      each.owner := null;
      continue when each.target is distinct from _member_id;
    end if;
    if each.owner = _member_id then
      if _among is null or each.partition_id = any (_among) or not gapless.has_delivered(
        _group_id, _topic_id, each.partition_id, each.epoch
      ) then
        perform from gapless.consumer_offsets c
        where c.group_id = _group_id and c.topic_id = _topic_id and c.partition_id = each.partition_id
        for update skip locked;
        if found then
          perform gapless.release_client_lease(_group_id, _topic_id, each.partition_id, each.epoch, each.token);
        end if;
      end if;
      continue;
    end if;
    continue when each.is_paused
      or exists (select from gapless.member m where m.member_id = each.owner);
    if not pg_try_advisory_xact_lock(7427003, each.lease_no) then
      -- The session of an owner that is no member any more; a peer's session that only tries the lock is left alone.
      perform pg_terminate_backend(k.pid) from pg_locks k
      where each.owner is not null and k.locktype = 'advisory' and k.classid = 7427003::oid
        and k.objid = each.lease_no::oid and k.objsubid = 2 and k.granted and k.pid = each.worker_pid
        and k.database = (select d.oid from pg_database d where d.datname = current_database());
      was_held := true;
      continue;
    end if;
    select c.* into fence from gapless.consumer_offsets c
    where c.group_id = _group_id and c.topic_id = _topic_id and c.partition_id = each.partition_id
    for update skip locked;
    if not found then
      update gapless.lease l
      set error = gapless.standstill_reason('unplaced', _group_id, t.name, each.partition_id, null, null),
        error_ts = clock_timestamp()
      from gapless.topic t
      where l.lease_no = each.lease_no and t.topic_id = _topic_id and l.error is null
        and not exists (
          select from gapless.consumer_offsets c
          where c.group_id = _group_id and c.topic_id = _topic_id and c.partition_id = each.partition_id
        );
      continue;
    end if;
    update gapless.lease l
    set owner = _member_id, epoch = greatest(l.epoch, fence.epoch) + 1, token = gen_random_uuid(),
      worker_pid = null, error = null, error_ts = null, acquired_ts = clock_timestamp()
    where l.lease_no = each.lease_no
    returning l.epoch, l.token into fence.epoch, fence.token;
    update gapless.consumer_offsets c
    set epoch = fence.epoch, token = fence.token, installed_offset = c.next_offset
    where c.group_id = _group_id and c.topic_id = _topic_id and c.partition_id = each.partition_id;
  end loop;
  if was_held then    -- by a worker that is about to go; or by a session without a right to it (I11)
    perform gapless.end_foreign_locks();
  end if;
end
$$;
