-- Return the mean size of the newest events of a topic as they are stored, with their row's head and without indexes;
-- null: it has no event. Chunks are shared by all topics, so that no topic has a size of its own. It looks at about
-- 1000 events, of at most 100 partitions: keys are spread over partitions by their hash, so these stand for the rest.
-- A value that is compressed or stored apart counts as it is on disk, and is not read.
-- index: log_segment_pkey, backwards, at most 1000 rows; the ids by the key of their chunk
create or replace function gapless.mean_event_bytes(_topic_id int) returns double precision
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set plan_cache_mode = force_custom_plan
set jit = off as $$
declare
  partitions int := (
    select least(100, greatest(t.partitions, t.partitions_ever)) from gapless.topic t where t.topic_id = _topic_id
  );
  ids bigint[] := array(
    select n.id
    from generate_series(0, partitions - 1) p
    cross join lateral (
      select i.id
      from gapless.log_segment s
      cross join lateral (select u.id from unnest(s.message_ids) u (id) order by u.id desc) i
      where s.topic_id = _topic_id and s.partition_id = p
      order by s.base_offset desc
      limit 1 + 999 / partitions
    ) n
  );
begin
  return (
    select avg(
      24 + 4 + 28    -- the head of the row and its pointer; xid, id, topic_id and created_ts
      + coalesce(pg_column_size(o.key), 0) + coalesce(pg_column_size(o.host_id), 0)
      + coalesce(pg_column_size(o.user_id), 0) + coalesce(pg_column_size(o.transaction_id), 0)
      + coalesce(pg_column_size(o.event_type), 0) + coalesce(pg_column_size(o.payload), 0)
      + coalesce(pg_column_size(o.headers), 0) + coalesce(pg_column_size(o.cause), 0)
      + coalesce(pg_column_size(o.correlation), 0)
    )
    from gapless.outbox_message_t o
    where o.id between (select min(i) from unnest(ids) i) and (select max(i) from unnest(ids) i)
      and o.id = any (ids)
  );
end
$$;
