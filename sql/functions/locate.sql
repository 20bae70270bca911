-- Where the events of a transaction are: one row for each partition, first and last offset inclusive;
-- one with partition_id null for events of a topic that have no offset yet. No row: no event is there.
-- topic_ids: look in these only.
--   select * from gapless.locate('…');
-- By index throughout: the events by transaction_id or xid, their segments by the time from which on
-- they can have been sequenced; a transaction that was open for hours takes longer.
create or replace function gapless.locate(transaction_id uuid, topic_ids int[] default null)
returns table (
  topic_id int, partition_id int, first_offset bigint, last_offset bigint, events bigint
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  own_xid xid8 := gapless.xid_of(transaction_id);
  own_timeline int := gapless.timeline_of(transaction_id);    -- null: of an id of somebody's own
  last_seen pg_snapshot := (
    select s.snapshot from gapless.sequencer s order by s.run desc limit 1
  );
  part record;
  place record;
  other int;
  missing bigint[];
begin
  for part in
    select e.topic_id, e.partition_id, e.is_sequenced, array_agg(e.id) as ids, min(e.since) as since
    from (
      select o.id, o.topic_id,
        gapless.partition_of(
          coalesce(o.key, o.host_id, o.transaction_id::text, o.xid::text), t.partitions
        ) as partition_id,
        -- An xid of the future: its row came from another cluster, and was re-based.
        pg_visible_in_snapshot(o.xid, last_seen)
          or o.xid >= pg_snapshot_xmax(pg_current_snapshot()) as is_sequenced,
        -- It committed after its last INSERT.
        max(o.created_ts) over (partition by o.xid) as since
      from (
        select * from gapless.outbox_message_t m
        where m.transaction_id = locate.transaction_id
        union all
        select * from gapless.outbox_message_t m
        where m.xid = own_xid and m.transaction_id is null
      ) o
      join gapless.topic t on t.topic_id = o.topic_id
      where locate.topic_ids is null or o.topic_id = any (locate.topic_ids)
    ) e
    group by 1, 2, 3
    order by 1, 2
  loop
    -- After a failover xids are given again. What was sequenced says on which timeline, of the rest it
    -- is the one of now; an event that was published before a failover and sequenced behind it has
    -- another id than its publisher was told.
    if not part.is_sequenced then
      continue when own_timeline <> greatest(gapless.timeline(), 1);
      return query
      select part.topic_id, null::int, null::bigint, null::bigint, cardinality(part.ids)::bigint;
      continue;
    end if;
    select * into place
    from gapless.find_ids(part.topic_id, part.partition_id, part.ids, part.since);
    if place.hits > 0 and own_timeline is not null then
      continue when own_timeline <> coalesce(
        gapless.timeline_at(part.topic_id, part.partition_id, place.first_offset), 1
      );
    end if;
    if place.hits > 0 then
      return query
      select part.topic_id, part.partition_id, place.first_offset, place.last_offset, place.hits;
    end if;
    missing := place.missing;
    -- Its key went to another partition then: the topic had another number of them.
    for other in
      select distinct s.partition_id from gapless.log_segment s
      where cardinality(missing) > 0 and s.topic_id = part.topic_id
        and s.partition_id <> part.partition_id
    loop
      exit when cardinality(missing) = 0;
      select * into place from gapless.find_ids(part.topic_id, other, missing, part.since);
      missing := place.missing;
      if place.hits > 0 then
        return query
        select part.topic_id, other, place.first_offset, place.last_offset, place.hits;
      end if;
    end loop;
  end loop;
end
$$;

-- Which of these event ids stand in a partition, and where: first and last offset, how many were
-- found, and those that were not. since: they were not sequenced before.
create or replace function gapless.find_ids(
  topic_id int, partition_id int, ids bigint[], since timestamptz,
  out first_offset bigint, out last_offset bigint, out hits bigint, out missing bigint[]
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
  from_base bigint := gapless.segment_since(topic_id, partition_id, since);
  look_at int := 4;     -- segments; more each time: they need not be the next ones
  hit record;
begin
  missing := ids;
  hits := 0;
  while from_base is not null and cardinality(missing) > 0 loop
    select
      min(x.base_offset + u.n - 1) filter (where w.id is not null) as first_offset,
      max(x.base_offset + u.n - 1) filter (where w.id is not null) as last_offset,
      coalesce(array_agg(w.id) filter (where w.id is not null), '{}') as ids,
      max(x.last_offset) + 1 as next_base
    into hit
    from (
      select s.base_offset, s.last_offset, s.message_ids from gapless.log_segment s
      where s.topic_id = find_ids.topic_id and s.partition_id = find_ids.partition_id
        and s.base_offset >= from_base
      order by s.base_offset
      limit look_at
    ) x
    cross join unnest(x.message_ids) with ordinality as u (id, n)
    left join unnest(missing) as w (id) on w.id = u.id;
    if cardinality(hit.ids) > 0 then
      first_offset := least(first_offset, hit.first_offset);
      last_offset := greatest(last_offset, hit.last_offset);
      hits := hits + cardinality(hit.ids);
      missing := array(select unnest(missing) except all select unnest(hit.ids));
    end if;
    from_base := hit.next_base;
    look_at := least(look_at * 4, 4096);
  end loop;
end
$$;

-- The timeline that a transaction_id of gapless.transaction_uuid() carries; null for any other.
create or replace function gapless.timeline_of(transaction_id uuid)
returns int
language sql
immutable strict parallel safe
as $$
  select case
    when gapless.xid_of(transaction_id) is not null
      then greatest(('x' || left(transaction_id::text, 8))::bit(32)::int, 1)
  end
$$;

-- The xid that a transaction_id of gapless.transaction_uuid() carries; null for any other.
create or replace function gapless.xid_of(transaction_id uuid)
returns xid8
language sql
immutable strict parallel safe
as $$
  select case
    when h ~ '^[0-9a-f]{8}000080008[0-9a-f]{15}$'
      then ('x0' || right(h, 15))::bit(64)::bigint::text::xid8
  end
  from (select replace(transaction_id::text, '-', '')) as x (h)
$$;
