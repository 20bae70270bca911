-- Return a transactionally consistent place in the log, after the given one, with at most events_max events between the
-- two: of every publishing transaction either all events lie before it, in all partitions, or none. A transaction that
-- has more than that is taken whole, alone.
-- The argument and the result are the offset to read next, of each partition (the n-th of the three arrays).
--
-- The end of a sequencer's run is such a place: a run gives offsets to whole transactions. One run of more than
-- events_max events is cut inside: its events lie in every partition in the order of the highest id of their
-- transaction (functions/sequence_events.sql), so the events up to one of these are whole.
create or replace function gapless.cut(
  _topic_ids int[], _partition_ids int[], _next_offsets bigint[], _events_max bigint
) returns table (topic_id int, partition_id int, next_offset bigint)
-- Stable: one snapshot for all of it, the caller's.
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  first_run bigint;
  last_run bigint;
begin
  select min(c.run), max(c.run) filter (where c.events <= _events_max)
  into first_run, last_run
  from (
    select r.run, sum(r.events) over (order by r.run) as events
    from (
      select s.run, sum(s.last_offset - greatest(s.base_offset, p.next_offset) + 1) as events
      from unnest(_topic_ids, _partition_ids, _next_offsets)
        as p (topic_id, partition_id, next_offset)
      cross join lateral gapless.segments_from(
        p.topic_id, p.partition_id, p.next_offset, _events_max + 1
      ) s
      group by s.run
    ) r
  ) c;

  if first_run is null or last_run is not null then
    return query
    select p.topic_id, p.partition_id, coalesce(
      (
        select max(s.last_offset) + 1
        from gapless.segments_from(p.topic_id, p.partition_id, p.next_offset, _events_max + 1) s
        where s.run <= last_run
      ), p.next_offset)
    from unnest(_topic_ids, _partition_ids, _next_offsets)
      as p (topic_id, partition_id, next_offset);
    return;
  end if;

  -- The first run alone is too much. One event more than allowed is read: so a transaction that is not seen whole never
  -- seems to fit.
  return query
  with
  ahead as (
    select p.topic_id, p.partition_id, e.c_offset, e.id, o.xid
    from unnest(_topic_ids, _partition_ids, _next_offsets)
      as p (topic_id, partition_id, next_offset)
    cross join lateral (
      select s.base_offset + u.n - 1 as c_offset, u.id
      from gapless.segments_from(p.topic_id, p.partition_id, p.next_offset, _events_max + 1) s
      cross join unnest(s.message_ids) with ordinality as u (id, n)
      where s.run = first_run and s.base_offset + u.n - 1 >= p.next_offset
      order by c_offset
      limit _events_max + 1
    ) e
    left join lateral (
      select m.xid from gapless.outbox_message_t m where m.id = e.id offset 0
    ) o on true
  ),
  -- MUST not be max() over the table: the planner would walk the primary key backwards for it.
  transactions as (
    select a.xid, (
      select max(q.id)
      from (select m.id from gapless.outbox_message_t m where m.xid = a.xid offset 0) q
    ) as last_id
    from (select distinct xid from ahead) a
  ),
  placed as (
    select a.*, coalesce(t.last_id, a.id) as last_id
    from ahead a left join transactions t on t.xid = a.xid
  ),
  counted as (
    select g.last_id, sum(g.events) over (order by g.last_id) as events, g.xid
    from (
      select p.last_id, count(*) as events, min(p.xid::text)::xid8 as xid
      from placed p group by p.last_id
    ) g
  ),
  chosen as (
    select
      (select max(c.last_id) from counted c where c.events <= _events_max) as upto,
      (select c.xid from counted c order by c.last_id limit 1) as xid
  ),
  fitting as (
    select p.topic_id, p.partition_id, max(p.c_offset) + 1 as next_offset
    from placed p, chosen c
    where p.last_id <= c.upto
    group by p.topic_id, p.partition_id
  ),
  -- Not even the first transaction fits: take all of it, however long it is.
  whole as (
    select p.topic_id, p.partition_id, (
      select max(s.base_offset + u.n)
      from gapless.log_segment s
      cross join unnest(s.message_ids) with ordinality as u (id, n)
      where s.topic_id = p.topic_id and s.partition_id = p.partition_id and s.run = first_run
        and s.base_offset >= coalesce(
          (
            select b.base_offset from gapless.log_segment b
            where b.topic_id = p.topic_id and b.partition_id = p.partition_id
              and b.base_offset <= p.next_offset
            order by b.base_offset desc limit 1
          ), 0)
        and u.id in (select m.id from gapless.outbox_message_t m where m.xid = c.xid)
    ) as next_offset
    from chosen c
    cross join unnest(_topic_ids, _partition_ids, _next_offsets)
      as p (topic_id, partition_id, next_offset)
    where c.upto is null
  )
  select p.topic_id, p.partition_id,
    greatest(p.next_offset, coalesce(f.next_offset, w.next_offset, p.next_offset))
  from unnest(_topic_ids, _partition_ids, _next_offsets)
    as p (topic_id, partition_id, next_offset)
  left join fitting f using (topic_id, partition_id)
  left join whole w using (topic_id, partition_id);
end
$$;
