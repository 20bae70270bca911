-- Take the next events of a partition into latest, events_max at most; returns how many. A part of compact().
--
-- A key's events are taken in in their order, so what comes later replaces what is there, whatever its offset:
-- within a
-- partition by its offset, and over a change of the number of partitions because events of a layout are taken in when
-- those of all layouts before it are, in every partition. An offset says nothing about that of another partition.
-- So a tombstone may remove its row, and no older event comes after it.
-- Each event once: next_offset moves in this transaction. Redrive and replay put nothing into the log, so
-- nothing here.
-- locks: the row of compaction; 0 when somebody has it. plan: one look-up an event, and a key
create or replace function gapless.compact_partition(_topic_id int, _partition_id int, _events_max int)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_hashjoin = off
set enable_mergejoin = off
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_custom_plan
as $$
declare
  here record;
  of_layout int;
  is_direct boolean;    -- the topic takes messages for one group: else that is a header as any other
  upto bigint;
  step record;
begin
  select c.ctid as place, c.next_offset into here from gapless.compaction c
  where c.topic_id = _topic_id and c.partition_id between _partition_id and _partition_id
  order by c.partition_id desc limit 1    -- the newest version, as offset_row()
  for update skip locked;
  if not found then
    return 0;
  end if;
  -- MUST be asked after the lock: it may have been switched off since.
  select t.direct into is_direct from gapless.topic t where t.topic_id = _topic_id and t.compacted;
  if not found then
    return 0;
  end if;
  select s.layout into of_layout
  from gapless.segments_from(_topic_id, _partition_id, here.next_offset, 1) s;
  if not found or exists (
    select from gapless.barrier b
    left join gapless.compaction c using (topic_id, partition_id)
    where b.topic_id = _topic_id and b.layout < of_layout and coalesce(c.next_offset, 1) <= b.last_offset
  ) then
    return 0;
  end if;
  select least(max(s.last_offset), here.next_offset + _events_max - 1) into upto
  from gapless.segments_from(_topic_id, _partition_id, here.next_offset, _events_max) s
  where s.layout = of_layout;

  with
  events as materialized (
    select s.base_offset + u.n - 1 as c_offset, s.timeline, o.*
    from gapless.segments_from(_topic_id, _partition_id, here.next_offset, _events_max) s
    cross join lateral unnest(s.message_ids) with ordinality as u (id, n)
    cross join lateral (
      select m.id, m.xid, m.key, m.host_id, m.user_id, m.transaction_id, m.event_type, m.payload, m.headers,
        m.created_ts, m.cause, m.correlation, gapless.key_digest(m) as key_digest
      from gapless.outbox_message_t m where m.id = u.id offset 0
    ) o
    where s.base_offset + u.n - 1 between here.next_offset and upto
  ),
  -- What is for one group says nothing of the key to the others.
  keyed as (
    select * from events e
    where coalesce(e.key, e.host_id) is not null
      and not (is_direct and coalesce(e.headers ? 'gapless-to-group', false))
  ),
  newest as materialized (
    select distinct on (k.key_digest) k.*,
      coalesce(btrim(k.payload::text, e' \t\r\n') = 'null', true) as is_tombstone
    from keyed k
    order by k.key_digest, k.c_offset desc
  ),
  gone as (
    delete from gapless.latest l using newest n
    where l.topic_id = _topic_id and l.key_digest = n.key_digest and n.is_tombstone
    returning 1
  ),
  put as (
    insert into gapless.latest (
      topic_id, key_digest, partition_id, c_offset, timeline, id, xid, key, host_id, user_id, transaction_id,
      event_type, payload, headers, created_ts, cause, correlation
    )
    select _topic_id, n.key_digest, _partition_id, n.c_offset, n.timeline, n.id, n.xid, n.key, n.host_id, n.user_id,
      n.transaction_id, n.event_type, n.payload, n.headers, n.created_ts, n.cause, n.correlation
    from newest n where not n.is_tombstone
    on conflict (topic_id, key_digest) do update
    set partition_id = excluded.partition_id, c_offset = excluded.c_offset, timeline = excluded.timeline,
      id = excluded.id, xid = excluded.xid, key = excluded.key, host_id = excluded.host_id,
      user_id = excluded.user_id, transaction_id = excluded.transaction_id, event_type = excluded.event_type,
      payload = excluded.payload, headers = excluded.headers, created_ts = excluded.created_ts,
      cause = excluded.cause, correlation = excluded.correlation
    returning xmax = 0 as is_new
  )
  select (select count(*) from events) as found, (select count(*) from keyed) as keyed,
    (select count(*) from put where is_new) as new, (select count(*) from gone) as gone
  into step;
  update gapless.compaction c
  set next_offset = upto + 1, keys = c.keys + step.new - step.gone, keyless = c.keyless + step.found - step.keyed,
    missing = c.missing + upto - here.next_offset + 1 - step.found, moved_ts = clock_timestamp()
  where c.ctid = here.place;
  return upto - here.next_offset + 1;
end
$$;
