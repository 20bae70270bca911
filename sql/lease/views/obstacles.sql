-- Obstacles that keep groups, or scheduled events, from continuing and that gapless does not end, with the remedy
-- (I11):
-- - transactions that were prepared and left (left_prepared.sql). name: the gid.
-- - transactions that have cancelled due events, or locked these, and stay open (later_holders.sql). name: the
--   session's pid, or the gid.
-- - a clock that was put back (ahead_times.sql). since_s: by so much, at least. A clock that went ahead in a step, for
--   as long as it is doubted (look_at_clock.sql). since_s: by so much.
-- - schedules that published their next due times when a clock was ahead (fire_schedules.sql). since_s: so long yet.
-- - clients that send heartbeats, have nothing in hand, and have not polled for their ttl, while events of partitions
--   that they hold wait for as long. A client at work has events in hand.
-- - row security on a table, without a policy: a role that is not its owner sees no row of it. name: the table.
-- since_s: for so long; 0: unknown.
create or replace view gapless.obstacles as
select
  'prepared transaction' as kind,
  p.gid as name,
  p.since_s,
  format(
    'prepared transaction %L of role %s has held %s for %s s', p.gid, p.owner,
    coalesce(
      -- A write in a savepoint bears another number: then the place is left out.
      (
        select string_agg(concat_ws('/', c.group_id, t.name, c.partition_id), ', ' order by c.group_id, t.name,
          c.partition_id)
        from gapless.consumer_offsets c
        join gapless.topic t using (topic_id)
        where c.xmax = p.xid
      ), 'rows that groups need to continue'),
    floor(p.since_s)
  ) as problem,
  format('rollback prepared %L, or commit prepared', p.gid) as remedy
from gapless.left_prepared() p
union all
select
  'clock',
  'clock',
  a.ahead_s,
  format(
    'the database''s clock was put back, by %s s at least: %s', ceil(a.ahead_s), a.what
  ),
  'keep the server''s clock by NTP; waiting events wait their own time from now on'
from gapless.ahead_times() a
union all
select
  'clock',
  'clock',
  extract(epoch from c.doubted_ts - c.sure_ts)::double precision,
  format(
    'the database''s clock went ahead in one step, from %s to %s: retention, dedupe windows and other ends by time do '
      'not go by that until %s',
    gapless.stamp(c.sure_ts), gapless.stamp(c.doubted_ts), gapless.stamp(c.doubted_ts + interval '1 hour')
  ),
  'if it is wrong, put it right until then, and keep it by NTP'
from gapless.clock_look c
where c.is_step and clock_timestamp() >= c.doubted_ts and clock_timestamp() < c.doubted_ts + interval '1 hour'
union all
select
  'schedule',
  s.name,
  extract(epoch from upper(s.ahead) - x.now_ts)::double precision,
  format(
    'schedule %s publishes nothing until %s: a clock that was ahead has published the events due until then', s.name,
    gapless.stamp(upper(s.ahead))
  ),
  format('to have that once more, gapless schedule remove %s, and add it again', s.name)
from gapless.schedule s
cross join (select gapless.clock() as now_ts offset 0) x
where s.ahead @> s.next_due and s.next_due > x.now_ts and s.paused_ts is null
union all
select
  'transaction',
  coalesce(h.gid, h.pid::text),
  h.since_s,
  format(
    '%s of role %s has %s, and has been open for %s s since: they wait%s',
    coalesce('prepared transaction ' || quote_literal(h.gid), 'the transaction of session ' || h.pid), h.owner,
    case
      when h.events is null then 'locked the table of events for later'
      when h.events = 1 then 'cancelled or locked 1 event for later that is due'
      else 'cancelled or locked ' || case when h.events > 999 then '1000 or more' else h.events::text end
        || ' events for later that are due'
    end, floor(h.since_s), case when h.events is not null then ', and the rest of their transactions with them' end
  ),
  case
    when h.gid is null then format('commit or roll back there, or select pg_terminate_backend(%s)', h.pid)
    else format('rollback prepared %L, or commit prepared', h.gid)
  end
from gapless.later_holders() h
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
from gapless.all_members m
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
    where l.owner = m.member_id and gapless.has_delivered(l.group_id, l.topic_id, l.partition_id, l.epoch)
  )
union all
select
  'row security',
  c.name,
  0,
  format('row security hides all rows of %s from roles that do not own it', c.name),
  format('alter table %s disable row level security', c.oid::regclass)
from (
  -- A view that is replaced keeps the collation of its columns.
  select k.oid, k.relname::text collate "default" as name from pg_class k
  where k.relnamespace = 'gapless'::regnamespace and k.relrowsecurity and not k.relispartition
    and not exists (select from pg_policy p where p.polrelid = k.oid and p.polpermissive)
) c;

comment on view gapless.obstacles is
  'Obstacles that keep groups, or events for later, from continuing until a person removes them, with the remedies.';
