-- Take at most events_max next events of a partition into latest; returns their number. A part of compact().
--
-- A key's events are taken in in their order, so a later event replaces the earlier one, whatever its offset: within a
-- partition by its offset, and over a change of the number of partitions because events of a layout are taken in after
-- those of all earlier layouts, in every partition. An offset says nothing about the offsets of another partition. So a
-- tombstone may remove its row, and no older event comes after it.
-- Each event once: next_offset moves in this transaction. Redrive and replay put nothing into the log, so nothing here.
-- locks: the row of compaction; 0 when another session has it.
-- plan: events are looked up by an array of ids, which no join can turn into a scan; their chunks are known when it is
--   planned. First the few columns that decide which is the newest of a key, then all columns of those.
create or replace function gapless.compact_partition(_topic_id int, _partition_id int, _events_max int) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_nestloop = off set enable_mergejoin = off set enable_seqscan = off set jit = off
set plan_cache_mode = force_custom_plan as $$
declare
  here record;
  of_layout int;
  is_direct boolean;    -- the topic takes messages for one group: else that is an ordinary header
  low bigint;           -- the beginning of the segment that holds next_offset
  upto bigint;
  low_id bigint;
  high_id bigint;
  step record;
begin
  select c.ctid as place, c.next_offset into here from gapless.compaction c
  where c.topic_id = _topic_id and c.partition_id between _partition_id and _partition_id
  order by c.partition_id desc limit 1    -- the newest version, as offset_row()
  for update skip locked;
  if not found then
    return 0;
  end if;
  -- MUST be read after the lock: it may have been switched off since.
  select t.direct into is_direct from gapless.topic t where t.topic_id = _topic_id and t.compacted;
  if not found then
    return 0;
  end if;
  select s.layout, s.base_offset into of_layout, low
  from gapless.segments_from(_topic_id, _partition_id, here.next_offset, 1) s;
  if not found or exists (
    select from gapless.barrier b
    left join gapless.compaction c using (topic_id, partition_id)
    where b.topic_id = _topic_id and b.layout < of_layout and coalesce(c.next_offset, 1) <= b.last_offset
  ) then
    return 0;
  end if;
  -- MUST be bounded by offsets: as many segments as events hold two hundred times as many events.
  select least(max(s.last_offset), here.next_offset + _events_max - 1), min(u.id), max(u.id) into upto, low_id, high_id
  from gapless.log_segment s
  cross join lateral unnest(s.message_ids) as u (id)
  where s.topic_id = _topic_id and s.partition_id = _partition_id
    and s.base_offset between low and here.next_offset + _events_max - 1 and s.layout = of_layout;

  with
  placed as materialized (
    select s.base_offset + u.n - 1 as c_offset, s.timeline, u.id
    from gapless.log_segment s
    cross join lateral unnest(s.message_ids) with ordinality as u (id, n)
    where s.topic_id = _topic_id and s.partition_id = _partition_id and s.base_offset between low and upto
      and s.base_offset + u.n - 1 between here.next_offset and upto
  ),
  -- A message for one group does not concern the key of the others.
  events as materialized (
    select p.c_offset, p.timeline, p.id,
      gapless.order_key(m.key, m.host_id, m.transaction_id, m.xid) collate "C" as order_key,
      coalesce(m.key, m.host_id) is not null
        and not (is_direct and coalesce(m.headers ? 'gapless-to-group', false)) as is_keyed,
      coalesce(json_typeof(m.payload) = 'null', true) as is_tombstone
    from placed p
    join gapless.outbox_message_t m on m.id = p.id
    where m.id between low_id and high_id and m.id = any ((select array_agg(i.id) from placed i)::bigint[])
  ),
  newest as materialized (
    select n.*, gapless.order_digest(n.order_key) as key_digest
    from (
      select distinct on (e.order_key) e.* from events e where e.is_keyed order by e.order_key, e.c_offset desc
    ) n
  ),
  gone as (
    delete from gapless.latest l
    where l.topic_id = _topic_id
      and l.key_digest = any ((select array_agg(n.key_digest) from newest n where n.is_tombstone)::bytea[])
    returning 1
  ),
  put as (
    insert into gapless.latest (
      topic_id, key_digest, partition_id, c_offset, timeline, id, xid, key, host_id, user_id, transaction_id,
      event_type, payload, headers, created_ts, cause, correlation
    )
    select _topic_id, n.key_digest, _partition_id, n.c_offset, n.timeline, n.id, m.xid, m.key, m.host_id, m.user_id,
      m.transaction_id, m.event_type, m.payload, m.headers, m.created_ts, m.cause, m.correlation
    from newest n
    join gapless.outbox_message_t m on m.id = n.id
    where m.id between low_id and high_id
      and m.id = any ((select array_agg(i.id) from newest i where not i.is_tombstone)::bigint[])
    on conflict (topic_id, key_digest) do update
    set partition_id = excluded.partition_id, c_offset = excluded.c_offset, timeline = excluded.timeline,
      id = excluded.id, xid = excluded.xid, key = excluded.key, host_id = excluded.host_id,
      user_id = excluded.user_id, transaction_id = excluded.transaction_id, event_type = excluded.event_type,
      payload = excluded.payload, headers = excluded.headers, created_ts = excluded.created_ts,
      cause = excluded.cause, correlation = excluded.correlation
    returning xmax = 0 as is_new
  )
  select count(*) as found, count(*) filter (where e.is_keyed) as keyed,
    (select count(*) from put where is_new) as new, (select count(*) from gone) as gone
  into step
  from events e;
  update gapless.compaction c
  set next_offset = upto + 1, keys = c.keys + step.new - step.gone, keyless = c.keyless + step.found - step.keyed,
    missing = c.missing + upto - here.next_offset + 1 - step.found, moved_ts = clock_timestamp()
  where c.ctid = here.place;
  return upto - here.next_offset + 1;
end
$$;
