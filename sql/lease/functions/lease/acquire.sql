-- Take a partition's lease for a member; the worker's session already holds lock (7427003, lease_no).
-- Returns the new epoch, or null: not the target (any more), paused, or the former owner still lives. The former owner
-- had to report its own problem, and may have died before it continued.
-- MUST be one statement of its own, and touch only the lease row: the next step may have to wait for a late owner's
-- batch, and no plan may queue behind that.
create or replace function gapless.acquire(
  _group_id text, _topic_id int, _partition_id int, _member_id uuid, _token uuid
) returns bigint
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update gapless.lease l
  set owner = _member_id, epoch = l.epoch + 1, token = _token,
    worker_pid = pg_backend_pid(), error = null, error_ts = null,
    acquired_ts = clock_timestamp()
  where l.group_id = _group_id and l.topic_id = _topic_id
    and l.partition_id = _partition_id and l.target = _member_id
    and exists (select from gapless.member m where m.member_id = _member_id)
    and not gapless.is_paused(l.group_id, l.topic_id, l.partition_id)
    and (
      l.owner is null or l.owner = _member_id
      or not exists (select from gapless.member m where m.member_id = l.owner)
    )
  returning l.epoch
$$;
