-- Give offsets to all pending events, however many and of whatever kind (sequence_events(), which calls this).
-- Returns the number of events that got one, the snapshot that saw them, and whether events without a topic are left.
--
-- MUST stay one statement: under READ COMMITTED each statement has its own snapshot, and the stored snapshot must be
-- the one with which the events were read.
create or replace function gapless.sequence_many(
  _state gapless.sequencer, _is_restored boolean,
  out sequenced bigint, out seen pg_snapshot, out has_unrouted boolean
)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  xmax_seen constant xid8 := pg_snapshot_xmax(_state.snapshot);
  in_progress constant xid8[] := array(select pg_snapshot_xip(_state.snapshot));
  timeline constant int := gapless.timeline();
begin
  with
  -- MUST be looked up here: a transaction that sees the topic routes its new events, and those before come first (I4).
  adopted as (
    delete from gapless.unrouted u
    using gapless.topic t
    where _state.has_unrouted and u.topic_id = t.topic_id
    returning u.topic_id, u.first_id, u.last_id
  ),
  known as (    -- read only after a re-base
    select unnest(s.message_ids) as id from gapless.log_segment s
  ),
  pending as materialized (
    (
      select o.id, o.xid, o.topic_id, o.key, o.host_id, o.transaction_id, o.cause
      from gapless.outbox_message_t o
      where o.xid >= xmax_seen and o.id > _state.floor_id
      order by o.xid
    )
    union all
    select o.id, o.xid, o.topic_id, o.key, o.host_id, o.transaction_id, o.cause
    from gapless.outbox_message_t o
    -- Only those that have ended: rows of an open one would all be visited in vain.
    where o.xid = any (
        array(select x from unnest(in_progress) x where pg_visible_in_snapshot(x, pg_current_snapshot()))
      ) and o.id > _state.floor_id
    union all
    select o.id, o.xid, o.topic_id, o.key, o.host_id, o.transaction_id, o.cause
    from gapless.outbox_message_t o
    where _state.stragglers <> '{}' and o.xid = any (_state.stragglers) and o.id <= _state.floor_id
      and not exists (select from gapless.log_segment s where s.message_ids @> array[o.id])
    union all
    select o.id, o.xid, o.topic_id, o.key, o.host_id, o.transaction_id, o.cause
    from gapless.outbox_message_t o
    where _is_restored and o.id <= _state.floor_id and o.xid <> all (_state.stragglers)
      and not exists (select from known k where k.id = o.id)
    union all
    -- Events that earlier runs saw and could not route. Events that they did not see are in one of the other parts.
    select o.id, o.xid, o.topic_id, o.key, o.host_id, o.transaction_id, o.cause
    from gapless.outbox_message_t o
    where _state.has_unrouted
      and o.topic_id = any (array(select a.topic_id from adopted a))
      and o.id between (select min(a.first_id) from adopted a) and (select max(a.last_id) from adopted a)
      -- Up to the floor ids decide, because xids of the cluster that was restored from mean nothing.
      and (o.id <= _state.floor_id or pg_visible_in_snapshot(o.xid, _state.snapshot))
      and o.xid <> all (_state.stragglers)
      and o.id not in (
        select unnest(s.message_ids) from gapless.log_segment s
        where s.topic_id in (select a.topic_id from adopted a)
      )
  ),
  strays as (
    select p.topic_id, count(*) as events, min(p.id) as first_id, max(p.id) as last_id,
      row_number() over (order by p.topic_id) as n
    from pending p
    where not exists (select from gapless.topic t where t.topic_id = p.topic_id)
    group by p.topic_id
  ),
  counted as (
    insert into gapless.unrouted as u (topic_id, events, first_id, last_id)
    select l.topic_id, sum(l.events), min(l.first_id), max(l.last_id)
    from (
      select s.events, s.first_id, s.last_id,
        case
          when exists (select from gapless.unrouted k where k.topic_id = s.topic_id)
            or s.n <= 100 - (select count(*) from gapless.unrouted)
          then s.topic_id
          else 0
        end as topic_id
      from strays s
    ) l
    group by l.topic_id
    on conflict (topic_id) do update
    set events = u.events + excluded.events,
      first_id = least(u.first_id, excluded.first_id),
      last_id = greatest(u.last_id, excluded.last_id)
    returning u.topic_id
  ),
  ranked as (
    select p.*, max(p.id) over (partition by p.xid) as last_id, false as is_old
    from pending p
    where p.id > _state.restored_upto
    union all
    -- Their xids are of another cluster: a transaction of here with the same xid is another transaction.
    select o.*, max(o.id) over (partition by o.xid), true
    from pending o
    where o.id <= _state.restored_upto
  ),
  routed as (
    select
      r.topic_id,
      gapless.partition_of(
        gapless.order_key(r.key, r.host_id, r.transaction_id, r.xid), t.partitions
      ) as partition_id,
      r.last_id,
      r.id,
      r.xid,
      r.is_old,
      r.transaction_id,
      r.cause
    from ranked r
    join gapless.topic t using (topic_id)
  ),
  placed as (
    select
      r.topic_id,
      r.partition_id,
      r.id,
      row_number() over w - 1 as n,
      -- A unit is a run of neighbours of one publishing transaction, cut where their transaction_id or their cause
      -- differs, and never gathered across others (I5, I10).
      (r.xid, r.transaction_id, r.cause) is distinct from
        (lead(r.xid) over w, lead(r.transaction_id) over w, lead(r.cause) over w)
        or r.is_old is distinct from lead(r.is_old) over w as ends_unit
    from routed r
    window w as (partition by r.topic_id, r.partition_id order by r.last_id, r.id)
  ),
  chains as (
    select
      p.topic_id,
      p.partition_id,
      p.n / 200 as link,
      array_agg(p.id order by p.n) as message_ids,
      string_agg(case when p.ends_unit then '1' else '0' end, '' order by p.n)::varbit as unit_ends
    from placed p
    group by p.topic_id, p.partition_id, p.n / 200
  ),
  -- MUST be looked up once a partition: the rows that this statement inserts are in the index already, though not
  -- visible, and a look-up for each of a thousand segments would pass all earlier ones.
  heads as materialized (
    select
      c.topic_id,
      c.partition_id,
      coalesce(
        (
          select s.last_offset from gapless.log_segment s
          where s.topic_id = c.topic_id and s.partition_id = c.partition_id
          order by s.base_offset desc limit 1
        ), 0
      ) as last_offset,
      (select t.layout from gapless.topic t where t.topic_id = c.topic_id) as layout
    from (select distinct topic_id, partition_id from chains) c
  ),
  segments as (
    insert into gapless.log_segment
      (topic_id, partition_id, base_offset, last_offset, message_ids, unit_ends, run, layout, timeline)
    select
      c.topic_id,
      c.partition_id,
      h.last_offset + 1 + c.link * 200,
      h.last_offset + c.link * 200 + cardinality(c.message_ids),
      c.message_ids,
      c.unit_ends,
      _state.run + 1,
      h.layout,
      timeline
    from chains c
    join heads h using (topic_id, partition_id)
    returning topic_id, partition_id, cardinality(message_ids) as events
  ),
  grown as (
    select s.topic_id, s.partition_id, sum(s.events) as events
    from segments s
    group by s.topic_id, s.partition_id
  ),
  total as (
    select
      coalesce(sum(g.events), 0)::bigint as events,
      count(pg_notify('gapless_p_' || g.topic_id || '_' || g.partition_id, ''))
    from grown g
  ),
  own as (
    select pg_current_snapshot() as snapshot
  )
  select
    t.events,
    o.snapshot,
    exists (select from counted) or _state.has_unrouted and exists (
      select from gapless.unrouted u where u.topic_id not in (select a.topic_id from adopted a)
    )
  into sequenced, seen, has_unrouted
  from own o
  cross join total t;
end
$$;
