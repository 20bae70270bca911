-- Every change of leases and fences, with the members at that time, recorded in the transaction that made
-- it. Changes of a row are serialised by its lock: their ids are in the order of their commits.
create schema lease_history;

create table lease_history.lease (
  id bigint generated always as identity primary key,
  was gapless.lease not null,
  now gapless.lease not null,
  owner_lives boolean not null,        -- the former one, as a member
  taker_lives boolean not null,
  target_lives boolean not null,       -- the former one, as an active member of the group
  at timestamptz not null default clock_timestamp()
);

create table lease_history.gone (
  member_id uuid not null,
  at timestamptz not null default clock_timestamp()
);

create function lease_history.record_gone() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  insert into lease_history.gone (member_id) values (old.member_id);
  return null;
end
$$;

create trigger history after delete on gapless.member
for each row execute function lease_history.record_gone();

create function lease_history.record_lease() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  insert into lease_history.lease (was, now, owner_lives, taker_lives, target_lives)
  values (
    old, new,
    exists (select from gapless.member m where m.member_id = old.owner),
    -- The taking session looks for its row without a lock, so the row may be gone by now: if its end was not
    -- committed when the statement began, the session was a member.
    exists (select from gapless.member m where m.member_id = new.owner)
      or exists (
        select from lease_history.gone g
        where g.member_id = new.owner and g.at > statement_timestamp() - interval '1 s'
      ),
    coalesce(old.target = any (gapless.live_members(old.group_id, old.topic_id)), false)
  );
  return null;
end
$$;

create trigger history after update on gapless.lease
for each row execute function lease_history.record_lease();

create table lease_history.fence (
  id bigint generated always as identity primary key,
  was gapless.consumer_offsets not null,
  now gapless.consumer_offsets not null,
  leased_epoch bigint not null,
  backend_pid int not null default pg_backend_pid(),
  xid xid8 not null default pg_current_xact_id(),
  -- A person moved the group: to any offset, and no worker owns it then.
  is_seek boolean not null
    default coalesce(current_setting('gapless.seeking', true) = pg_current_xact_id()::text, false)
);

create function lease_history.record_fence() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  insert into lease_history.fence (was, now, leased_epoch)
  select old, new, l.epoch from gapless.lease l
  where l.group_id = new.group_id and l.topic_id = new.topic_id
    and l.partition_id = new.partition_id;
  return null;
end
$$;

create trigger history after update on gapless.consumer_offsets
for each row execute function lease_history.record_fence();

-- Contradictions between the history and the protocol; no row when all is well. by_hand: the test itself
-- changed targets.
create function lease_history.violations(by_hand boolean)
returns table (invariant text, place text, problem text)
language sql
as $$
  with
  lease as (
    select h.id, concat_ws('/', (h.now).group_id, (h.now).topic_id, (h.now).partition_id) as place,
      (h.was).epoch as was_epoch, (h.now).epoch as epoch, (h.now).token,
      (h.was).owner as was_owner, (h.now).owner, (h.was).target as was_target, (h.now).target,
      (h.was).generation as was_generation, (h.now).generation,
      (h.now).group_id, (h.now).topic_id,
      h.owner_lives, h.taker_lives, h.target_lives
    from lease_history.lease h
  ),
  fence as (
    select h.id, concat_ws('/', (h.now).group_id, (h.now).topic_id, (h.now).partition_id) as place,
      (h.was).epoch as was_epoch, (h.now).epoch as epoch, (h.was).token as was_token,
      (h.now).token, (h.was).next_offset as was_offset, (h.now).next_offset,
      h.leased_epoch, h.backend_pid, h.xid, h.is_seek
    from lease_history.fence h
  ),
  -- The session that put in the fence that stood when a batch was committed.
  batch as (
    select f.*, (
      select i.backend_pid from fence i
      where i.place = f.place and i.id < f.id
        and (i.epoch, i.token) is distinct from (i.was_epoch, i.was_token)
      order by i.id desc limit 1
    ) as installed_by
    from fence f
    where f.next_offset <> f.was_offset and not f.is_seek
  )
  select 'S2', place, format('the offset fell from %s to %s', was_offset, next_offset)
  from batch where next_offset < was_offset
  union all
  select 'S3', place, format('session %s committed to %s, the owner was %s', backend_pid,
    next_offset - 1, installed_by)
  from batch where installed_by <> backend_pid
  union all
  select 'S3', place, format('a batch to %s changed the fence', next_offset - 1)
  from batch where (epoch, token) is distinct from (was_epoch, was_token)
  union all
  select 'S4', place, format('lease: epoch %s after %s', epoch, was_epoch)
  from lease where epoch not in (was_epoch, was_epoch + 1)
  union all
  select 'S4', place, format('lease: epoch %s was given out %s times', epoch, count(*))
  from lease where epoch > was_epoch group by place, epoch having count(*) > 1
  union all
  select 'S4', place, format('lease: a token was given out %s times', count(*))
  from lease where epoch > was_epoch group by place, token having count(*) > 1
  union all
  select 'S4', place, format('fence: epoch %s after %s', epoch, was_epoch)
  from fence where epoch < was_epoch
  union all
  select 'S4', place, format('fence: epoch %s changed hands', epoch)
  from fence where epoch = was_epoch and token is distinct from was_token
    and not (is_seek and token is null)
  union all
  select 'S5', place, format('fence: epoch %s, the lease was at %s', epoch, leased_epoch)
  from fence where epoch > leased_epoch
  union all
  select 'S6', place, format('epoch %s without a new owner, or an owner without one', epoch)
  from lease where owner is distinct from was_owner and owner is not null and epoch = was_epoch
  union all
  select 'S7', place, format('epoch %s taken by one who is not the target', epoch)
  from lease where epoch > was_epoch and owner is distinct from target
  union all
  select 'S7', place, format('epoch %s taken by one who is no member', epoch)
  from lease where epoch > was_epoch and not taker_lives
  union all
  select 'S7', place, format('epoch %s taken from a living owner', epoch)
  from lease where epoch > was_epoch and was_owner <> owner and owner_lives
  union all
  select 'L3', place, format('the target changed outside a plan, generation %s', generation)
  from lease
  where not by_hand and target is distinct from was_target and generation <= was_generation
  union all
  -- Between members that stay, a plan moves only partitions above a quota away: the giving one gets nothing.
  select 'P4', gave.place, format('generation %s: a member both gave and got', gave.generation)
  from lease gave
  where not by_hand and gave.target <> gave.was_target and gave.target_lives
    and exists (
      select from lease got
      where got.group_id = gave.group_id and got.topic_id = gave.topic_id
        and got.generation = gave.generation and got.target = gave.was_target
        and got.was_target is distinct from got.target
    )
$$;
