-- Return the events of a partition from first_offset to last_offset, both inclusive, in offset order.
--   select * from gapless.read('outbox', 3, 1, 100);
-- An offset beyond the end has no row. The ids are collected into an array first and looked up by index: if log_segment
-- were joined to the outbox, the planner might hash the whole outbox.
create or replace function gapless.read(
  topic text, partition_id int, first_offset bigint default 1, last_offset bigint default null
) returns table (
  c_offset bigint, key text, event_type text, payload json, headers jsonb, host_id text,
  user_id text, transaction_id uuid, created_ts timestamptz, message_id bigint
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set plan_cache_mode = force_custom_plan
set jit = off as $$
#variable_conflict use_column
declare
  wanted int := gapless.topic_id(topic);
  from_base bigint;
  segment record;
begin
  first_offset := greatest(first_offset, gapless.log_first(wanted, partition_id));
  select s.base_offset into from_base from gapless.log_segment s
  where s.topic_id = wanted and s.partition_id = read.partition_id
    and s.base_offset <= read.first_offset
  order by s.base_offset desc limit 1;

  for segment in
    select s.base_offset, s.message_ids, s.timeline,
      (select min(i) from unnest(s.message_ids) i) as low,
      (select max(i) from unnest(s.message_ids) i) as high
    from gapless.log_segment s
    where s.topic_id = wanted and s.partition_id = read.partition_id
      and s.base_offset >= coalesce(from_base, 1)
      and (read.last_offset is null or s.base_offset <= read.last_offset)
    order by s.base_offset
  loop
    if gapless.is_in_default(segment.message_ids) then
      return query
      select segment.base_offset + u.n - 1, o.key, o.event_type, o.payload, o.headers, o.host_id,
        o.user_id, coalesce(o.transaction_id, gapless.transaction_uuid(o.xid, segment.timeline)),
        o.created_ts, o.id
      from unnest(segment.message_ids) with ordinality as u (id, n)
      join gapless.events_of(segment.message_ids) o on o.id = u.id
      where segment.base_offset + u.n - 1 >= read.first_offset
        and (read.last_offset is null or segment.base_offset + u.n - 1 <= read.last_offset)
      order by u.n;
      continue;
    end if;
    return query
    select segment.base_offset + u.n - 1, o.key, o.event_type, o.payload, o.headers, o.host_id,
      o.user_id, coalesce(o.transaction_id, gapless.transaction_uuid(o.xid, segment.timeline)),
      o.created_ts, o.id
    from unnest(segment.message_ids) with ordinality as u (id, n)
    -- OFFSET 0: one look-up an id. As a join it may read all rows between low and high: every event that was published
    -- while a long transaction was open.
    cross join lateral (
      select * from gapless.outbox_message_t e
      where e.id = u.id and e.id between segment.low and segment.high
      offset 0
    ) o
    where segment.base_offset + u.n - 1 >= read.first_offset
      and (read.last_offset is null or segment.base_offset + u.n - 1 <= read.last_offset)
    order by u.n;
  end loop;
end
$$;
