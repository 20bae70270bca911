-- Return the newest event of a key of a compacted topic, as far as events were taken in (the view compactions says how
-- far). No row: there is no event, or it was a tombstone. key null: of all keys, in any order; all rows are in memory.
--   select payload from gapless.latest('prices', 'ACME');
-- Raises GL404 for an unknown topic, GL409 for a topic that is not compacted.
create or replace function gapless.latest(topic text, key text default null) returns table (
  event_key text, event_type text, payload json, headers jsonb, host_id text, user_id text, transaction_id uuid,
  partition_id int, c_offset bigint, created_ts timestamptz
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  wanted int := gapless.require_compacted(topic);
begin
  if latest.key is null then
    return query
    select coalesce(l.key, l.host_id), l.event_type, l.payload, l.headers, l.host_id, l.user_id,
      coalesce(l.transaction_id, gapless.transaction_uuid(l.xid, l.timeline)),
      l.partition_id, l.c_offset, l.created_ts
    from gapless.latest l where l.topic_id = wanted;
    return;
  end if;
  return query
  select coalesce(l.key, l.host_id), l.event_type, l.payload, l.headers, l.host_id, l.user_id,
    coalesce(l.transaction_id, gapless.transaction_uuid(l.xid, l.timeline)), l.partition_id, l.c_offset, l.created_ts
  from gapless.latest l
  where l.topic_id = wanted
    and l.key_digest = gapless.order_digest(latest.key);
end
$$;
