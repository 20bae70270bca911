-- Who keeps groups from continuing and is not ended by anybody, with what ends it (I11):
-- - transactions that were prepared and left, and hold offsets, members, leases, or a guard. name: the gid. From 2 s
--   on: that is less than any ttl, and whoever uses two-phase commit as it is meant needs no such time.
-- - clients that send heartbeats, have nothing in hand, and have not polled for their ttl, while events of partitions
--   that they hold wait for as long. One that is at work has something in hand.
-- since_s: for so long.
create or replace view gapless.obstacles as
select
  'prepared transaction' as kind,
  p.gid as name,
  x.since_s,
  format(
    'prepared transaction %L of role %s has held %s for %s s', p.gid, p.owner,
    coalesce(
      -- What it wrote in a savepoint bears another number: then it is said without the place.
      (
        select string_agg(concat_ws('/', c.group_id, t.name, c.partition_id), ', ' order by c.group_id, t.name,
          c.partition_id)
        from gapless.consumer_offsets c
        join gapless.topic t using (topic_id)
        where c.xmax = p.transaction
      ), 'what groups need to continue'),
    floor(x.since_s)
  ) as problem,
  format('rollback prepared %L, or commit prepared', p.gid) as remedy
from pg_prepared_xacts p
cross join lateral (
  select extract(epoch from clock_timestamp() - p.prepared)::double precision as since_s
) x
where p.database = current_database() and x.since_s > 2
  and exists (
    select from pg_locks own
    join pg_locks k using (virtualtransaction)
    join pg_class r on r.oid = k.relation
    where own.locktype = 'transactionid' and own.transactionid = p.transaction and own.pid is null
      and k.locktype = 'relation' and k.pid is null and r.relnamespace = 'gapless'::regnamespace
      and k.database = (select d.oid from pg_database d where d.datname = current_database())
      and k.mode <> 'AccessShareLock'
      and (r.relname in ('consumer_offsets', 'member', 'lease') or starts_with(r.relname, 'guard_'))
  )
union all
select
  'client',
  m.name,
  y.since_s,
  format(
    'client "%s" of %s/%s sends heartbeats but has not polled for %s s, while events wait in partition%s', m.name,
    mg.group_id, t.name, floor(y.since_s), w.partitions
  ),
  format('have it poll, or stop it and select gapless.end_client(''%s''): others have its partitions then', m.member_id)
from gapless.member m
join gapless.member_group mg using (member_id)
join gapless.topic t using (topic_id)
cross join lateral (
  select
    case when count(*) > 1 then 's ' else ' ' end
      || string_agg(l.partition_id::text, ', ' order by l.partition_id) as partitions,
    min(l.acquired_ts) as acquired_ts,
    max(g.lag_s) as lag_s
  from gapless.lease l
  join gapless.lag g using (group_id, topic_id, partition_id)
  where l.owner = m.member_id and g.lag > 0 and not gapless.is_paused(l.group_id, l.topic_id, l.partition_id)
) w
cross join lateral (
  select least(
    extract(epoch from now() - greatest(m.polled_ts, m.started_ts, w.acquired_ts)), w.lag_s
  )::double precision as since_s
) y
where m.kind = 'client' and m.expires_at >= now() and w.partitions is not null
  and y.since_s > extract(epoch from m.ttl)
  and not exists (
    select from gapless.lease l
    where l.owner = m.member_id and gapless.is_in_hand(l.group_id, l.topic_id, l.partition_id, l.epoch)
  );

comment on view gapless.obstacles is
  'Prepared transactions and silent clients that keep groups from continuing, with what ends each.';
