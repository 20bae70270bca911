-- Take a partition's lease for a member; the worker's session already holds lock (7427003, lease_no).
-- Returns the new epoch, or null: not the target (any more), paused, or the former owner still lives.
-- What stopped the former owner was for that one to say, and it may have died before it went on.
-- MUST be one statement of its own, and touch only the lease row: the next step may have to wait for
-- a late owner's batch, and no plan may queue behind that.
create or replace function gapless.acquire(
  group_id text, topic_id int, partition_id int, member_id uuid, token uuid
)
returns bigint
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  update gapless.lease l
  set owner = acquire.member_id, epoch = l.epoch + 1, token = acquire.token,
    worker_pid = pg_backend_pid(), error = null, error_ts = null
  where l.group_id = acquire.group_id and l.topic_id = acquire.topic_id
    and l.partition_id = acquire.partition_id and l.target = acquire.member_id
    and exists (select from gapless.member m where m.member_id = acquire.member_id)
    and not gapless.is_paused(l.group_id, l.topic_id, l.partition_id)
    and (
      l.owner is null or l.owner = acquire.member_id
      or not exists (select from gapless.member m where m.member_id = l.owner)
    )
  returning l.epoch
$$;

-- Put the new fence into the row that every batch locks and compares (I7): from here on a former
-- owner cannot commit. Waits for its open transaction (set lock_timeout, and try again).
-- Raises GL410 when the group's row is gone. Returns null when a higher epoch stands there; otherwise
-- whether the predecessor ended uncleanly, that is, without release: then the first units are to be
-- handled one by one.
create or replace function gapless.install_fence(
  group_id text, topic_id int, partition_id int, epoch bigint, token uuid
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  unclean boolean;
begin
  select c.installed_offset is not null into unclean
  from gapless.consumer_offsets c
  where c.group_id = install_fence.group_id and c.topic_id = install_fence.topic_id
    and c.partition_id = install_fence.partition_id
    and (c.epoch < install_fence.epoch or c.token = install_fence.token)
  for update;
  if not found then
    if not exists (
      select from gapless.consumer_offsets c
      where c.group_id = install_fence.group_id and c.topic_id = install_fence.topic_id
        and c.partition_id = install_fence.partition_id
    ) then
      raise exception 'the group has no row in consumer_offsets' using errcode = 'GL410';
    end if;
    return null;
  end if;
  update gapless.consumer_offsets c
  set epoch = install_fence.epoch, token = install_fence.token, installed_offset = c.next_offset
  where c.group_id = install_fence.group_id and c.topic_id = install_fence.topic_id
    and c.partition_id = install_fence.partition_id;
  return unclean;
end
$$;

-- Let go of a partition after its last batch; tells the group, so that the next owner starts at once.
create or replace function gapless.release(
  group_id text, topic_id int, partition_id int, token uuid
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update gapless.consumer_offsets c set installed_offset = null
  where c.group_id = release.group_id and c.topic_id = release.topic_id
    and c.partition_id = release.partition_id and c.token = release.token;
  update gapless.lease l set owner = null, token = null, worker_pid = null
  where l.group_id = release.group_id and l.topic_id = release.topic_id
    and l.partition_id = release.partition_id and l.token = release.token;
  if not found then
    return false;
  end if;
  perform pg_notify('gapless_g_' || g.group_no, 'free')
  from gapless.consumer_group g
  where g.group_id = release.group_id and g.topic_id = release.topic_id;
  return true;
end
$$;

-- Before a unit is handled in careful mode, in a transaction of its own: how often was it tried?
-- So a unit that kills its worker is known by its offset (I8). Null when fenced.
create or replace function gapless.record_attempt(
  group_id text, topic_id int, partition_id int, epoch bigint, token uuid
)
returns int
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  update gapless.consumer_offsets c
  set attempts = case when c.attempt_offset = c.next_offset then c.attempts + 1 else 1 end,
    attempt_offset = c.next_offset
  where c.group_id = record_attempt.group_id and c.topic_id = record_attempt.topic_id
    and c.partition_id = record_attempt.partition_id
    and c.epoch = record_attempt.epoch and c.token = record_attempt.token
  returning c.attempts
$$;

-- The attempt ended with an error instead of a death: it does not count.
create or replace function gapless.forget_attempt(
  group_id text, topic_id int, partition_id int, epoch bigint, token uuid
)
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  update gapless.consumer_offsets c set attempts = c.attempts - 1
  where c.group_id = forget_attempt.group_id and c.topic_id = forget_attempt.topic_id
    and c.partition_id = forget_attempt.partition_id
    and c.epoch = forget_attempt.epoch and c.token = forget_attempt.token
    and c.attempt_offset = c.next_offset and c.attempts > 0
$$;

-- What stops a partition, for status; null clears it.
create or replace function gapless.report_error(
  group_id text, topic_id int, partition_id int, token uuid, error text
)
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  update gapless.lease l
  set error = report_error.error,
    error_ts = case when report_error.error is not null then clock_timestamp() end
  where l.group_id = report_error.group_id and l.topic_id = report_error.topic_id
    and l.partition_id = report_error.partition_id and l.token = report_error.token
    and l.error is distinct from report_error.error
$$;

-- End the sessions that hold a partition's lock although the lease's owner is no longer a member.
-- The pid is looked up now, never taken from a column. Returns how many were ended.
create or replace function gapless.break_zombie(
  group_id text, topic_id int, partition_id int
)
returns int
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select count(*) filter (where pg_terminate_backend(k.pid))::int
  from gapless.lease l
  join pg_locks k on k.locktype = 'advisory' and k.classid = 7427003::oid
    and k.objid = l.lease_no::oid and k.objsubid = 2 and k.granted and k.pid <> pg_backend_pid()
    and k.database = (select d.oid from pg_database d where d.datname = current_database())
  where l.group_id = break_zombie.group_id and l.topic_id = break_zombie.topic_id
    and l.partition_id = break_zombie.partition_id
    and not exists (select from gapless.member m where m.member_id = l.owner)
$$;

-- A supervisor gives up a lease whose worker died; the fence still guards what the worker left.
create or replace function gapless.disown(
  member_id uuid, group_id text, topic_id int, partition_id int
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update gapless.lease l set owner = null, worker_pid = null
  where l.group_id = disown.group_id and l.topic_id = disown.topic_id
    and l.partition_id = disown.partition_id and l.owner = disown.member_id;
  if found then
    perform pg_notify('gapless_g_' || g.group_no, 'free')
    from gapless.consumer_group g
    where g.group_id = disown.group_id and g.topic_id = disown.topic_id;
  end if;
end
$$;
