-- Take the next events of a partition for a queue group, in the caller's open transaction: they count as finished now,
-- which commits or rolls back with the handler's writes (Q4). Any number of sessions may call it.
--
-- Returns the rows of claim_events(), and its outcomes: a row for each piece of a segment, in which message_ids are the
-- taken events, each a unit of its own; then a row for each event, in any order.
--   outcome 'claimed'  offsets first_offset .. last_offset are this transaction's; claim_xid as in claim_at()
--   outcome 'idle'     no event is there, or it is paused; nothing was written: no xid, no WAL
--   outcome 'noted'    events there were delivered before: reserve() takes them; nothing was written
--   outcome 'moved'    lease_no or block are outdated: ask queue_places()
--   outcome 'held'     as 'idle', but the rest of a block that others have in hand may be open in a moment
--   outcome 'busy'     another session has the partition exclusively, to seek or to drop the group
--   outcome 'overrun', 'hole'  as claim_at(): first_offset .. last_offset are missing
-- hint: where to begin, at best the end of the session's last call; null: at the floor, which finds gaps and events
-- that were given back, and costs a look at each range that is not swept yet.
-- token, deadline, holder: the range is in hand until then, not finished (reserve()); GL410 if an event is not there.
--
-- A block of offsets is the caller's while it has the block's advisory lock. MUST look in a statement of its own after
-- it has the lock: an older snapshot may not show the commit of the block's previous owner (Q2). The rest of the block
-- is taken, at most max_events events and up to the end of the log.
-- Locks of blocks without a remaining event are kept until the transaction ends, so the call stops at the end of the
-- log.
-- locks: (7427003, lease_no) shared, (7427006, block_key()); both by try, until the transaction ends
-- plan: as claim_events()
create or replace function gapless.take_next(
  _group_id text, _topic_id int, _partition_id int, _lease_no int, _block int, _max_events int, _hint bigint,
  _holder text default null, _token uuid default null, _deadline timestamptz default null
) returns table (
  outcome text, first_offset bigint, last_offset bigint, claim_xid text, place_after tid,
  base_offset bigint, message_ids bigint[], unit_ends text, timeline int,
  id bigint, key text, event_type text, payload json, headers jsonb, host_id text, user_id text,
  transaction_id uuid, xid xid8, created_ts timestamptz, cause text, correlation uuid
)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set plan_cache_mode = force_generic_plan set jit = off as $$
#variable_conflict use_column
declare
  pos bigint := _hint;
  block_no bigint;
  block_last bigint;
  cut int;           -- the block size in force
  is_paused boolean;
  log_last bigint;   -- the last offset of the segment that contains first_offset
  ids bigint[];
  goal bigint;
  low bigint;
  high bigint;
  piece record;
  tries int := 0;
  apart boolean;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform gapless.require_read_committed('take_next');
  end if;
  if not pg_try_advisory_xact_lock_shared(7427003, _lease_no) then
    outcome := 'busy';
    return next;
    return;
  end if;
  if pos is null then
    pos := gapless.queue_gap(_topic_id, _partition_id, _lease_no, _block, null);
    if pos is null then
      outcome := case
        when gapless.has_noted(_group_id, _topic_id, _partition_id, _lease_no) then 'noted' else 'idle'
      end;
      return next;
      return;
    end if;
  end if;
  loop
    block_no := (pos - 1) / _block;
    block_last := (block_no + 1) * _block;
    if pg_try_advisory_xact_lock(7427006, ((_lease_no::bigint * 1000003 + block_no) & 2147483647)::int) then
      -- A subselect and a second statement: joins cost more to set up than they find.
      select greatest(block_last - _block + 1, q.next_offset, (
          -- Not below the floor: while an old snapshot is held, all swept rows are still in the index.
          select r.last_offset + 1 from gapless.queue_range r
          where r.lease_no = _lease_no and r.first_offset between q.next_offset and block_last
          order by r.first_offset desc limit 1
        )), q.block, q.is_paused
      into first_offset, cut, is_paused
      from gapless.queue_floor q
      where q.lease_no = _lease_no
      order by q.version desc limit 1;
      if pos < first_offset and _hint is null then
        select coalesce(g.first_offset, take_next.first_offset), coalesce(g.last_offset, block_last)
        into first_offset, block_last
        from gapless.gap_in_block(_lease_no, block_last - _block + 1, block_last) g;
      end if;
      if first_offset <= block_last and cut = _block and not is_paused then
        select s.last_offset, s.timeline,
          s.message_ids[
            first_offset - s.base_offset + 1 : least(first_offset + _max_events - 1, block_last) - s.base_offset + 1
          ]
        into log_last, timeline, message_ids
        from gapless.log_segment s
        where s.topic_id = _topic_id and s.partition_id = _partition_id and s.base_offset <= first_offset
        order by s.base_offset desc limit 1;
        exit when first_offset <= log_last;
      end if;
      if cut is distinct from _block then
        outcome := 'moved';
      elsif is_paused then
        outcome := 'idle';
      elsif first_offset <= block_last then
        -- Behind the last segment, or before a missing one, unless it has just come.
        pos := first_offset;
        if first_offset = log_last + 1 and not exists (
          select from gapless.log_segment s
          where s.topic_id = _topic_id and s.partition_id = _partition_id and s.base_offset >= take_next.first_offset
        ) then
          outcome := 'idle';
        else
          select nullif(t.outcome, 'there'), t.last_offset into outcome, last_offset
          from gapless.queue_end(_topic_id, _partition_id, _lease_no, first_offset) t;
        end if;
      elsif _hint is null then
        pos := gapless.queue_gap(_topic_id, _partition_id, _lease_no, _block, block_last + 1);
      else    -- finished, or reserved: beyond all taken offsets, mostly
        select r.last_offset + 1 into pos from gapless.queue_range r
        where r.lease_no = _lease_no and r.first_offset >= take_next.first_offset
        order by r.first_offset desc limit 1;
        pos := coalesce(pos, first_offset);
      end if;
    elsif _hint is null then
      pos := gapless.queue_gap(_topic_id, _partition_id, _lease_no, _block, block_last + 1);
    else
      pos := block_last + 1;
      tries := tries + 1;
      -- Two conditions in one would be a query for each block in hand: unused subqueries are set up, too.
      if tries % 64 = 0 then
        if pos > (
          select g.last_offset from gapless.log_segment g
          where g.topic_id = _topic_id and g.partition_id = _partition_id
          order by g.base_offset desc limit 1
        ) then
          pos := null;
        end if;
      end if;
    end if;
    if outcome is not null or pos is null then
      if tries > 0 and coalesce(outcome, 'idle') = 'idle' then
        outcome := 'held';
      end if;
      outcome := coalesce(outcome, 'idle');
      first_offset := case when last_offset is not null then first_offset end;
      message_ids := null;
      timeline := null;
      return next;
      return;
    end if;
  end loop;

  outcome := 'claimed';
  ids := message_ids;
  base_offset := first_offset;
  last_offset := first_offset + cardinality(ids) - 1;
  unit_ends := repeat('1', cardinality(ids));
  if last_offset = log_last and last_offset < least(first_offset + _max_events - 1, block_last) then
    for piece in    -- more of the block, in the segments that follow
      select g.base_offset,
        g.message_ids[1 : least(first_offset + _max_events - 1, block_last) - g.base_offset + 1] as ids
      from gapless.log_segment g
      where g.topic_id = _topic_id and g.partition_id = _partition_id
        and g.base_offset > log_last
        and g.base_offset <= least(first_offset + _max_events - 1, block_last)
      order by g.base_offset
    loop
      exit when piece.base_offset <> last_offset + 1;    -- a hole
      ids := ids || piece.ids;
      last_offset := last_offset + cardinality(piece.ids);
    end loop;
  end if;
  if _deadline is null then
    insert into gapless.queue_range (lease_no, first_offset, last_offset, holder)
    values (_lease_no, first_offset, last_offset, _holder);
  else
    insert into gapless.queue_range
      (lease_no, first_offset, last_offset, holder, token, deadline, since_ts, tries)
    values (_lease_no, first_offset, last_offset, _holder, _token, _deadline, clock_timestamp(), 1);
  end if;
  if _holder is null then
    perform set_config('gapless.chain', 'open', true);    -- see tell_cause()
    claim_xid := pg_current_xact_id()::text;
  end if;
  return next;
  if last_offset > log_last then
    goal := last_offset;
    return query
    select 'claimed', first_offset, goal, claim_xid, null::tid, g.base_offset, p.ids,
      repeat('1', cardinality(p.ids)), g.timeline, null::bigint, null::text, null::text, null::json,
      null::jsonb, null::text, null::text, null::uuid, null::xid8, null::timestamptz, null::text, null::uuid
    from gapless.log_segment g
    cross join lateral (
      select g.message_ids[1 : (goal - g.base_offset + 1)::int] as ids
    ) p
    where g.topic_id = _topic_id and g.partition_id = _partition_id
      and g.base_offset > log_last and g.base_offset <= goal
    order by g.base_offset;
  end if;

  select set_config('plan_cache_mode', 'force_custom_plan', true) is null or gapless.is_in_default(ids) into apart;
  if apart then
    return query
    select null::text, null::bigint, null::bigint, null::text, null::tid,
      null::bigint, null::bigint[], null::text, null::int,
      o.id, o.key, o.event_type, o.payload, o.headers, o.host_id, o.user_id,
      o.transaction_id, o.xid, o.created_ts, o.cause, o.correlation
    from gapless.events_of(ids) o;
  elsif first_offset = last_offset then
    low := ids[1];
    return query
    select null::text, null::bigint, null::bigint, null::text, null::tid,
      null::bigint, null::bigint[], null::text, null::int,
      o.id, o.key, o.event_type, o.payload, o.headers, o.host_id, o.user_id,
      o.transaction_id, o.xid, o.created_ts, o.cause, o.correlation
    from gapless.outbox_message_t o
    where o.id = low;
  else
    select min(i), max(i) into low, high from unnest(ids) i;
    return query
    select null::text, null::bigint, null::bigint, null::text, null::tid,
      null::bigint, null::bigint[], null::text, null::int,
      o.id, o.key, o.event_type, o.payload, o.headers, o.host_id, o.user_id,
      o.transaction_id, o.xid, o.created_ts, o.cause, o.correlation
    from gapless.outbox_message_t o
    where o.id between low and high and o.id = any ((select ids)::bigint[]);
  end if;
  get diagnostics tries = row_count;
  if _deadline is not null and tries < cardinality(ids) then
    perform gapless.refuse_missing(_topic_id, _partition_id, first_offset + min(u.n) - 1)
    from unnest(ids) with ordinality as u (id, n)
    where not exists (select from gapless.outbox_message_t o where o.id = u.id);
  end if;
end
$$;
