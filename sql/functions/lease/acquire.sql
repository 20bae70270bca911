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
