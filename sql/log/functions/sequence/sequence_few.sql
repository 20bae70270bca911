-- Give offsets to pending events in the usual case: at most 64 events, all of existing topics. Returns their number, 0
-- where none is pending, and the snapshot that saw them; null, without a write, where sequence_many() has to look.
-- sequence_events(), which calls both, defines the pending events and their order.
--
-- MUST give the same segments as sequence_many(). It exists for its plans: to set up those of sequence_many() takes
-- longer than they run for one event.
--
-- MUST read events, topics and snapshot in one statement: under READ COMMITTED each has a snapshot of its own.
create or replace function gapless.sequence_few(_state gapless.sequencer, out sequenced bigint, out seen pg_snapshot)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  few constant int := 64;
  xmax_seen constant xid8 := pg_snapshot_xmax(_state.snapshot);
  in_progress constant xid8[] := array(select pg_snapshot_xip(_state.snapshot));
  -- For each pending event, in the order of offsets.
  ids bigint[];
  topics int[];
  parts int[];
  layouts int[];
  xids xid8[];
  transactions uuid[];
  causes text[];
  has_strays boolean;
  -- For each partition: its events in these arrays, from `firsts` to `lasts`; units end where a mark is 1.
  firsts int[];
  lasts int[];
  marks text := '';
  first int := 1;
  timeline int;
begin
  select array_agg(r.id), array_agg(r.topic_id), array_agg(r.partition_id), array_agg(r.layout), array_agg(r.xid),
    array_agg(r.transaction_id), array_agg(r.cause), bool_or(r.layout is null), pg_current_snapshot()
  into ids, topics, parts, layouts, xids, transactions, causes, has_strays, seen
  from (
    select
      p.id,
      p.topic_id,
      gapless.partition_of(
        gapless.order_key(p.key, p.host_id, p.transaction_id, p.xid), t.partitions
      ) as partition_id,
      t.layout,
      p.xid,
      p.transaction_id,
      p.cause
    from (
      select q.*, max(q.id) over (partition by q.xid) as last_id
      from (
        (
          select o.id, o.xid, o.topic_id, o.key, o.host_id, o.transaction_id, o.cause
          from gapless.outbox_message_t o
          where o.xid >= xmax_seen and o.id > _state.floor_id
          order by o.xid
          limit few + 1
        )
        union all
        (
          select o.id, o.xid, o.topic_id, o.key, o.host_id, o.transaction_id, o.cause
          from gapless.outbox_message_t o
          where in_progress <> '{}'
            and o.xid = any (
              array(select x from unnest(in_progress) x where pg_visible_in_snapshot(x, pg_current_snapshot()))
            )
            and o.id > _state.floor_id
          limit few + 1
        )
      ) q
    ) p
    left join gapless.topic t using (topic_id)
    order by p.topic_id, partition_id, p.last_id, p.id
  ) r;
  sequenced := coalesce(cardinality(ids), 0);
  if sequenced = 0 then
    return;
  end if;
  if sequenced > few or has_strays then
    sequenced := null;
    return;
  end if;

  for i in 1 .. sequenced loop
    if topics[i] = topics[i + 1] and parts[i] = parts[i + 1] then
      marks := marks || case
        when xids[i] = xids[i + 1] and transactions[i] is not distinct from transactions[i + 1]
          and causes[i] is not distinct from causes[i + 1]
        then '0'
        else '1'
      end;
    else
      marks := marks || '1';
      firsts := firsts || first;
      lasts := lasts || i;
      first := i + 1;
    end if;
  end loop;

  -- One statement for all partitions: to set it up, constraints included, costs more than a row.
  timeline := gapless.timeline();
  insert into gapless.log_segment
    (topic_id, partition_id, base_offset, last_offset, message_ids, unit_ends, run, layout, timeline)
  select topics[e.last], parts[e.last], h.last_offset + 1, h.last_offset + 1 + e.last - e.first,
    ids[e.first:e.last], substr(marks, e.first, e.last - e.first + 1)::varbit, _state.run + 1, layouts[e.last],
    timeline
  from unnest(firsts, lasts) as e (first, last)
  cross join lateral (
    select
      coalesce(
        (
          select s.last_offset from gapless.log_segment s
          where s.topic_id = topics[e.last] and s.partition_id = parts[e.last]
          order by s.base_offset desc limit 1
        ), 0
      ) as last_offset,
      pg_notify('gapless_p_' || topics[e.last] || '_' || parts[e.last], '')
  ) h;
end
$$;
