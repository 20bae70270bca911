-- Return the places of a transaction's events: their partitions, first and last offset inclusive; a row with
-- partition_id null for events of a topic that have no offset yet. No row: no event is there.
-- topic_ids: only in these topics.
--   select * from gapless.locate('…');
-- By index throughout: the events by transaction_id or xid, their segments by the earliest time at which they can have
-- been sequenced; a transaction that was open for hours takes longer.
create or replace function gapless.locate(transaction_id uuid, topic_ids int[] default null) returns table (
  topic_id int, partition_id int, first_offset bigint, last_offset bigint, events bigint
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  own_xid xid8 := gapless.xid_of(transaction_id);
  own_timeline int := gapless.timeline_of(transaction_id);    -- null: no transaction_id was made of its xid
  last_seen pg_snapshot := (
    select s.snapshot from gapless.sequencer s order by s.run desc limit 1
  );
  part record;
begin
  for part in
    select e.topic_id, e.partition_id, e.is_sequenced, e.is_derived,
      array_agg(e.id) as ids, min(e.since) as since
    from (
      select o.id, o.topic_id, o.transaction_id is null as is_derived,
        gapless.partition_of(
          gapless.order_key(o.key, o.host_id, o.transaction_id, o.xid), t.partitions
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
    group by 1, 2, 3, 4
    order by 1, 2
  loop
    -- After a failover, xids are used again. Sequenced events carry their timeline, all others are of the present one.
    -- An event that was published before a failover and sequenced after it has another id than its publisher was told.
    if part.is_sequenced then
      return query
      select part.topic_id, p.partition_found, min(p.c_offset), max(p.c_offset), count(*)
      from gapless.offsets_of(part.topic_id, part.partition_id, part.ids, part.since) p
      where not part.is_derived or coalesce(p.timeline, 1) = own_timeline
      group by p.partition_found;
    elsif not part.is_derived or own_timeline = gapless.timeline() then
      return query
      select part.topic_id, null::int, null::bigint, null::bigint, cardinality(part.ids)::bigint;
    end if;
  end loop;
end
$$;
