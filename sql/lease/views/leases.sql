-- The owner and the target of each partition, by name; is_held: a worker's session holds the partition's advisory lock,
-- or the owner is a client, so the partition has a worker. A standby sees no locks of its primary: there the owner's
-- heartbeat decides.
-- paused_ts: since when it is paused (null: it is not), pause: the holder and the reason.
-- error: why it does not continue, error_ts: since when; for a queue a worker reports it, and it counts as long as
-- the worker repeats it, so its beginning is unknown (null). An owner without a name was evicted: its member row is
-- gone, the lease not yet taken over.
create or replace view gapless.leases as
select
  l.group_id, t.name as topic, l.partition_id, o.name as owner, w.name as target, l.epoch, l.generation,
  k.objid is not null
    or coalesce(o.kind = 'client' or pg_is_in_recovery() and o.expires_at >= now(), false) as is_held,
  l.worker_pid,
  case when g.mode = 'ordered' or l.error_ts > clock_timestamp() - interval '2 minutes' then l.error end as error,
  case when g.mode = 'ordered' then l.error_ts end as error_ts,
  l.owner as owner_id, l.target as target_id, l.topic_id, p.paused_ts, p.pause
from gapless.lease l
join gapless.topic t using (topic_id)
join gapless.consumer_group g using (group_id, topic_id)
left join lateral (
  select min(x.paused_ts) as paused_ts,
    string_agg(concat_ws(': ', x.paused_by, x.reason), ', ' order by x.paused_ts) as pause
  from gapless.group_pause x
  where x.group_id = l.group_id and x.topic_id = l.topic_id
    and x.partition_id in (-1, l.partition_id)
) p on true
left join gapless.all_members o on o.member_id = l.owner
left join gapless.all_members w on w.member_id = l.target
left join (
  select distinct p.objid from pg_locks p
  where p.locktype = 'advisory' and p.classid = 7427003::oid and p.objsubid = 2 and p.granted
    and p.database = (select d.oid from pg_database d where d.datname = current_database())
) k on k.objid = l.lease_no::oid
where not g.is_scratch;

comment on view gapless.leases is 'Owner, target, epoch and error of each partition of each group.';
