-- Return the units of the chain that contains a transaction, in the order in which they were published, each with the
-- unit that caused it. Events that a transaction caused have its id as their correlation; the requested transaction may
-- be anywhere in the chain, or, if it has an id of its own, in several.
--   first_id        the id of its first event, which is its name here
--   parent_id       the unit that caused it; null when it has no cause, or none that is here
--   is_asked        the requested transaction published it
--   cause_…         the parts of its cause, null where that cannot be parsed
--   partition_id …  null for events without offsets yet; they count as one unit for each cause
--   event_types, keys   at most ten of each
--   is_dropped      retention dropped its events; a group keeps them as dead letters
-- events_max: look at so many events, or twice as many; null: at all.
-- MUST hold for any text and uuid that a producer may write (cause, correlation, transaction_id): the cause of a unit
-- is always an earlier event, so no circle can be written.
-- By index throughout: the events by transaction_id, xid or correlation, their segments by time.
create or replace function gapless.chain_units(_transaction_id uuid, _events_max int default null) returns table (
  first_id bigint, parent_id bigint, is_asked boolean, cause text, cause_group text,
  cause_topic_id int, cause_partition_id int, cause_offset bigint,
  topic_id int, partition_id int, first_offset bigint, last_offset bigint, events bigint,
  event_types text[], keys text[], published_as uuid, published_ts timestamptz, is_dropped boolean
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  last_seen pg_snapshot := (
    select s.snapshot from gapless.sequencer s order by s.run desc limit 1
  );
  now_on int := gapless.timeline();
  roots uuid[];
begin
  select array_agg(distinct coalesce(x.correlation, _transaction_id)) into roots
  from (
    (
      select m.correlation from gapless.outbox_message_t m
      where m.transaction_id = _transaction_id
      limit _events_max
    )
    union all
    (
      select m.correlation from gapless.outbox_message_t m
      where m.xid = gapless.xid_of(_transaction_id) and m.transaction_id is null
      limit _events_max
    )
    union all
    (
      select e.correlation from gapless.dead_letter_event e
      where e.transaction_id = _transaction_id
      limit _events_max
    )
  ) x;
  roots := coalesce(roots, array[_transaction_id]);

  return query
  with
  found as (
    select distinct on (x.id) x.*
    from (
      select o.*
      -- The requested units first: they are there, whatever the limit.
      from (
        select r.id, 0 as turn from unnest(array[_transaction_id]) as r (id)
        union all
        select r.id, 1 from unnest(roots) as r (id)
        order by turn
      ) r
      cross join lateral (
        (
          select m.id, m.xid, m.topic_id, m.key, m.host_id, m.transaction_id, m.event_type,
            m.created_ts, m.cause, m.correlation
          from gapless.outbox_message_t m
          where m.transaction_id = r.id
            and (r.turn = 0 or coalesce(m.correlation, r.id) = r.id)
          limit _events_max
        )
        union all
        (
          select m.id, m.xid, m.topic_id, m.key, m.host_id, m.transaction_id, m.event_type,
            m.created_ts, m.cause, m.correlation
          from gapless.outbox_message_t m
          where m.xid = gapless.xid_of(r.id) and m.transaction_id is null
            and (r.turn = 0 or coalesce(m.correlation, r.id) = r.id)
          limit _events_max
        )
        union all
        (
          select m.id, m.xid, m.topic_id, m.key, m.host_id, m.transaction_id, m.event_type,
            m.created_ts, m.cause, m.correlation
          from gapless.outbox_message_t m
          where r.turn = 1 and m.correlation = r.id
          limit _events_max
        )
      ) o
      limit _events_max::bigint * 2
    ) x
  ),
  kept as (    -- as dead letters, of events that retention has dropped
    select distinct on (x.topic_id, x.partition_id, x.c_offset) x.*
    from (
      select e.*
      from unnest(roots) as r (id)
      cross join lateral (
        (
          select d.* from gapless.dead_letter_event d
          where d.transaction_id = r.id and coalesce(d.correlation, r.id) = r.id
          limit _events_max
        )
        union all
        (
          select d.* from gapless.dead_letter_event d where d.correlation = r.id limit _events_max
        )
      ) e
      where not exists (select from gapless.outbox_message_t m where m.id = e.message_id)
      limit _events_max
    ) x
  ),
  routed as (
    select f.*,
      gapless.partition_of(
        gapless.order_key(f.key, f.host_id, f.transaction_id, f.xid), t.partitions
      ) as at_partition,
      -- An xid of the future: its row came from another cluster, and was re-based.
      pg_visible_in_snapshot(f.xid, last_seen)
        or f.xid >= pg_snapshot_xmax(pg_current_snapshot()) as is_sequenced
    from found f
    join gapless.topic t using (topic_id)
  ),
  placed as (
    select r.id, r.xid, r.topic_id, p.partition_found as partition_id, p.c_offset, r.transaction_id,
      coalesce(p.timeline, 1) as timeline, r.cause, r.correlation, coalesce(r.key, r.host_id) as key,
      r.event_type, r.created_ts, false as is_dropped
    from (
      select s.topic_id, s.at_partition, array_agg(s.id) as ids, max(s.created_ts) as since
      from routed s
      where s.is_sequenced
      group by s.topic_id, s.at_partition, s.xid
    ) g
    cross join lateral gapless.offsets_of(g.topic_id, g.at_partition, g.ids, g.since) p
    join routed r on r.id = p.id
    union all
    select r.id, r.xid, r.topic_id, null, null, r.transaction_id,
      now_on, r.cause, r.correlation, coalesce(r.key, r.host_id), r.event_type, r.created_ts, false
    from routed r
    where not r.is_sequenced
    union all
    select k.message_id, null, k.topic_id, k.partition_id, k.c_offset, k.transaction_id,
      coalesce(gapless.timeline_at(k.topic_id, k.partition_id, k.c_offset), 1),
      k.cause, k.correlation, coalesce(k.key, k.host_id), k.event_type, k.created_ts, true
    from kept k
  ),
  named as (    -- events without an id of their own are named as by gapless.read()
    select p.*,
      coalesce(p.transaction_id, gapless.transaction_uuid(p.xid, p.timeline)) as published_as,
      p.c_offset - row_number() over (
        partition by p.topic_id, p.partition_id, p.xid, p.transaction_id, p.cause
        order by p.c_offset
      ) as run      -- neighbours of one unit have the same
    from placed p
  ),
  units as (
    select
      min(n.id) as first_id,
      n.topic_id,
      n.partition_id,
      min(n.c_offset) as first_offset,
      max(n.c_offset) as last_offset,
      count(*) as events,
      (array_agg(distinct left(n.event_type, 200)) filter (where n.event_type is not null))[1:10]
        as event_types,
      (array_agg(distinct left(n.key, 200)) filter (where n.key is not null))[1:10] as keys,
      n.published_as,
      n.cause,
      min(n.timeline) as timeline,
      min(n.created_ts) as published_ts,
      bool_or(n.is_dropped) as is_dropped
    from named n
    -- After a failover xids are used again: an event found by its xid may be of another transaction.
    where n.correlation is not null or n.published_as = any (roots)
      or n.published_as = _transaction_id
    group by n.topic_id, n.partition_id, n.xid, n.published_as, n.cause,
      case when n.partition_id is not null then n.run end
  )
  select
    u.first_id, p.first_id, u.published_as = _transaction_id, left(u.cause, 1000),
    c.group_id, t.topic_id, c.partition_id, c.first_offset,
    u.topic_id, u.partition_id, u.first_offset, u.last_offset, u.events,
    coalesce(u.event_types, '{}'), coalesce(u.keys, '{}'), u.published_as, u.published_ts,
    u.is_dropped
  from units u
  cross join lateral gapless.parse_cause(u.cause) c
  left join gapless.topic t on t.name = c.topic
  -- A cause names the first offset of a unit; of a batch, and of neighbours that groupBy merged, the first offset of
  -- the first unit.
  left join units p on p.topic_id = t.topic_id and p.partition_id = c.partition_id
    and p.first_offset = c.first_offset and p.timeline = c.timeline and p.first_id < u.first_id
  order by u.first_id;
end
$$;
