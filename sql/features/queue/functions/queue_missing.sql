-- Return the offsets that a queue group's partition cannot pass: the first ones, from its floor on, that are missing
-- from the log and that are neither passed nor in hand. outcome 'overrun': retention dropped them; 'hole': they, or
-- their events, are missing. No row: none is missing. Looks at 1000 segments from the first open offset on, and for the
-- events of its block, at most events_max. Reads only. MUST read the segments in one statement, as queue_end().
-- index: log_segment_pkey; queue_range_pkey from the floor on
create or replace function gapless.queue_missing(
  _topic_id int, _partition_id int, _lease_no int, _events_max int,
  out outcome text, out first_offset bigint, out last_offset bigint
) returns setof record
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  here gapless.queue_floor := gapless.floor_of(_lease_no);
  log_first bigint := gapless.log_first(_topic_id, _partition_id);
  each record;
  pos bigint := here.next_offset;
  base bigint;    -- of the segment that has pos
begin
  if pos is null then
    return;
  end if;
  for each in    -- over finished events and events in hand
    select r.first_offset, r.last_offset from gapless.queue_range r
    where r.lease_no = _lease_no and r.first_offset >= here.next_offset
      and (r.deadline is null or r.deadline > clock_timestamp())
    order by r.first_offset
  loop
    exit when each.first_offset > pos;
    pos := each.last_offset + 1;
  end loop;
  if pos < log_first then
    outcome := 'overrun';
    first_offset := pos;
    last_offset := log_first - 1;
    return next;
    return;
  end if;
  select b.base_offset into base from gapless.log_segment b
  where b.topic_id = _topic_id and b.partition_id = _partition_id and b.base_offset <= pos
  order by b.base_offset desc limit 1;
  base := coalesce(base, 0);
  select g.low, g.high into first_offset, last_offset
  from (
    select greatest(coalesce(lag(s.last_offset) over w + 1, log_first), pos) as low, s.base_offset - 1 as high
    from (
      select n.base_offset, n.last_offset from gapless.log_segment n
      where n.topic_id = _topic_id and n.partition_id = _partition_id
        and n.base_offset >= base
      order by n.base_offset
      limit 1000
    ) s
    window w as (order by s.base_offset)
  ) g
  where g.low <= g.high and g.high - g.low + 1 > (    -- it may have been passed in pieces
    select coalesce(sum(least(r.last_offset, g.high) - greatest(r.first_offset, g.low) + 1), 0)
    from gapless.queue_range r
    where r.lease_no = _lease_no and r.first_offset between here.next_offset and g.high and r.last_offset >= g.low
      and (r.deadline is null or r.deadline > clock_timestamp())
  )
  order by g.low limit 1;
  select min(m.c_offset) as c_offset into each
  from (
    select s.base_offset + u.n - 1 as c_offset, u.id
    from gapless.log_segment s
    cross join lateral unnest(s.message_ids) with ordinality u (id, n)
    where s.topic_id = _topic_id and s.partition_id = _partition_id
      and s.base_offset >= base
      and s.base_offset < pos + _events_max
      and s.base_offset + u.n - 1 >= pos and s.base_offset + u.n - 1 < pos + _events_max
      and (s.base_offset + u.n - 2) / here.block = (pos - 1) / here.block
  ) m
  where not exists (
    select from gapless.outbox_message_t o where o.id = m.id
  ) and not exists (
    select from gapless.queue_range r
    where r.lease_no = _lease_no and r.first_offset between here.next_offset and m.c_offset
      and r.last_offset >= m.c_offset and (r.deadline is null or r.deadline > clock_timestamp())
  );
  if each.c_offset < coalesce(first_offset, each.c_offset + 1) then
    first_offset := each.c_offset;
    last_offset := each.c_offset;
  end if;
  if first_offset is not null then
    outcome := 'hole';
    return next;
  end if;
end
$$;
