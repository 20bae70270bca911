-- Claim the next range of a partition for a group, in the caller's open transaction: the group's offset moves now, and
-- commits or rolls back with the handler's writes (I6).
--
-- Returns one row per segment that overlaps the range, or a single row with the reason why there is none:
--   outcome 'claimed'  offsets first_offset .. last_offset (both inclusive) are this transaction's; the n-th id of
--   message_ids has offset base_offset + n - 1
--   outcome 'idle'     nothing new, or paused; nothing was written: no xid, no WAL
--   outcome 'overrun'  retention dropped offsets first_offset .. last_offset before the group was there
--   outcome 'hole'     offsets first_offset .. last_offset are missing although later ones are there
--   outcome 'beyond'   first_offset, the group's offset, is beyond the end of the log: the next event had offset
--   last_offset when that was found (stop_beyond.sql); nothing is claimed until a seek, because the events up to the
--   offset would never be handled
--   outcome 'unplaced' the group's row is gone: its progress is unknown
--   outcome 'filtered' the group has another filter than the caller knows (0: none), or reads latest: ask claim_kept()
--   outcome 'fenced'   (epoch, token) is no longer the partition's owner: stop (I7)
-- The range has at most batch_size events, but is extended to the end of its last unit (I5).
-- After a change of the number of partitions it ends at the barrier; events behind the barrier are idle until the
-- partitions that had its keys before are done (blockers()).
-- claim_xid: pass it to gapless.finish_batch() before COMMIT.
-- read_ahead: segments of so many events, from first_offset on, are returned, even if last_offset is lower: events
-- behind it are not claimed yet; claim_ahead() claims them, as far as their units are whole.
-- place: the place of the group's row after the last claim, as that returned it; null when not known.
-- group_by: 'user' merges neighbouring units of the same (host_id, user_id), and the range continues to the end of the
-- last of these (user_units.sql); unit_ends marks the ends of merged ones.
-- timeline: of the segment (timeline.sql); null counts as 1.
-- locks: the consumer_offsets row until the transaction ends
create or replace function gapless.claim_at(
  _group_id text, _topic_id int, _partition_id int, _epoch bigint, _token uuid, _batch_size int,
  _read_ahead int, _place tid, _group_by text default 'transaction', _filter int default 0
) returns table (
  outcome text, first_offset bigint, last_offset bigint, claim_xid text, place_after tid,
  base_offset bigint, message_ids bigint[], unit_ends text, timeline int
)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off    -- a plan made while there were few segments may be kept for long
set jit = off as $$
#variable_conflict use_column
declare
  fence record;    -- the group's row, and other obstacles
  reach record;    -- the first segment of the range; the last offset of the range, its layout
  goal bigint;
  upto bigint;
  moved tid;
  user_ends bigint[];    -- under group_by user
begin
  -- One statement: each costs as much to begin and to end as its look-ups.
  select c.ctid, c.epoch, c.token, c.next_offset, c.layout, c.passed, c.stopped_at, c.filter_no, c.latest_upto,
    -- Here too, not only where workers are released: every caller of the step stops at once.
    exists (
      select from gapless.group_pause p
      where p.group_id = _group_id and p.topic_id = _topic_id
        and p.partition_id in (-1, _partition_id)
    ) as is_paused,
    (
      select l.first_offset from gapless.log_start l
      where l.topic_id = _topic_id and l.partition_id = _partition_id
    ) as kept_from    -- null: nothing was dropped
  into fence
  from gapless.consumer_offsets c
  where c.ctid = coalesce(
    (
      select o.ctid from gapless.consumer_offsets o
      where o.ctid = _place and o.group_id = _group_id
        and o.topic_id = _topic_id and o.partition_id = _partition_id
    ),
    gapless.offset_row(_group_id, _topic_id, _partition_id));
  if not found then
    outcome := 'unplaced';
    return next;
    return;
  end if;
  if fence.epoch <> _epoch or fence.token is distinct from _token then
    outcome := 'fenced';
    return next;
    return;
  end if;
  first_offset := fence.next_offset;
  if fence.filter_no <> _filter or fence.next_offset < fence.latest_upto then
    outcome := 'filtered';
    return next;
    return;
  end if;
  if fence.is_paused then
    outcome := 'idle';
    return next;
    return;
  end if;
  if fence.next_offset < fence.kept_from then
    outcome := 'overrun';
    last_offset := fence.kept_from - 1;
    return next;
    return;
  end if;
  if fence.stopped_at is not null then
    outcome := 'beyond';
    last_offset := fence.stopped_at;
    return next;
    return;
  end if;

  -- The segment that holds next_offset, if it was written yet; and the first unit end at or after the goal, else the
  -- end of the log: a run's last event always ends a unit. MUST stay one statement: in a later snapshot, segments that
  -- were written in between would look like a hole, or the log may end a million events later.
  goal := fence.next_offset + _batch_size - 1;
  select f.base_offset, f.layout,
    coalesce(
      (
        select array[
          s.base_offset + x.skip + position(b'1' in substring(s.unit_ends from x.skip + 1)) - 1,
          s.layout
        ]
        from gapless.log_segment s
        cross join lateral (select greatest(goal - s.base_offset, 0)::int as skip) x
        where s.topic_id = _topic_id and s.partition_id = _partition_id
          and s.base_offset >= coalesce(
            (
              select b.base_offset from gapless.log_segment b
              where b.topic_id = _topic_id and b.partition_id = _partition_id
                and b.base_offset <= goal
              order by b.base_offset desc limit 1
            ), 0)
          and s.last_offset >= goal
          and position(b'1' in substring(s.unit_ends from x.skip + 1)) > 0
        order by s.base_offset
        limit 1
      ),
      (
        select array[s.last_offset, s.layout] from gapless.log_segment s
        where s.topic_id = _topic_id and s.partition_id = _partition_id
        order by s.base_offset desc limit 1
      )
    ) as last
  into reach
  from gapless.log_segment f
  where f.topic_id = _topic_id and f.partition_id = _partition_id
    and f.base_offset >= coalesce(
      (
        select b.base_offset from gapless.log_segment b
        where b.topic_id = _topic_id and b.partition_id = _partition_id
          and b.base_offset <= fence.next_offset
        order by b.base_offset desc limit 1
      ), 0)
    and f.last_offset >= fence.next_offset
  order by f.base_offset
  limit 1;
  if not found then
    select e.end_offset into last_offset
    from gapless.log_ends(_topic_id, _partition_id) e;
    if first_offset > last_offset then
      outcome := 'beyond';
      return next;
      return;
    end if;
    last_offset := null;
    if fence.passed < (select t.layout from gapless.topic t where t.topic_id = _topic_id) then
      perform gapless.pass_barrier(_group_id, _topic_id, _partition_id, _epoch, _token);
    end if;
    outcome := 'idle';
    return next;
    return;
  end if;
  if reach.base_offset > fence.next_offset then
    outcome := 'hole';
    last_offset := reach.base_offset - 1;
    return next;
    return;
  end if;
  upto := reach.last[1];

  -- Events of a layout that is new to this partition: are the events before them done in all partitions?
  if reach.last[2] > fence.layout then
    if reach.layout > fence.passed then
      perform gapless.announce(_group_id, _topic_id, _partition_id, fence.passed, reach.layout);
      update gapless.consumer_offsets c set passed = reach.layout
      where c.group_id = _group_id and c.topic_id = _topic_id
        and c.partition_id = _partition_id and c.epoch = _epoch and c.token = _token;
    end if;
    if reach.layout > fence.layout then
      if exists (select from gapless.blockers(_group_id, _topic_id, _partition_id, reach.layout)) then
        outcome := 'idle';
        return next;
        return;
      end if;
      fence.layout := reach.layout;
    end if;
    if reach.last[2] > reach.layout then    -- not across a barrier: a run ends its last unit (I5)
      select b.last_offset into strict upto from gapless.barrier b
      where b.topic_id = _topic_id and b.layout = reach.layout
        and b.partition_id = _partition_id;
    end if;
  end if;

  if _group_by = 'user' then
    upto := gapless.user_unit_end(_topic_id, _partition_id, fence.next_offset, upto, reach.layout);
    user_ends := upto || array(
      select u.unit_end
      from gapless.user_units(
        _topic_id, _partition_id, fence.next_offset,
        greatest(upto, fence.next_offset + _read_ahead - 1), reach.layout
      ) u
      where u.is_closed
    );
  end if;

  moved := gapless.advance_offset(
    _group_id, _topic_id, _partition_id, _epoch, _token, fence.next_offset, upto + 1, fence.layout, fence.ctid,
    _filter
  );
  if moved is null then    -- another session changed the row since the look
    outcome := case
      when exists (
        select from gapless.consumer_offsets c
        where c.group_id = _group_id and c.topic_id = _topic_id and c.partition_id = _partition_id
          and c.epoch = _epoch and c.token = _token and c.filter_no <> _filter
      ) then 'filtered'
      else 'fenced'
    end;
    return next;
    return;
  end if;

  return query
  select 'claimed', fence.next_offset, upto, pg_current_xact_id()::text, moved,
    s.base_offset, s.message_ids,
    case when user_ends is null then s.unit_ends::text
      else gapless.user_marks(s.base_offset, cardinality(s.message_ids), user_ends)
    end,
    s.timeline
  from gapless.log_segment s
  where s.topic_id = _topic_id and s.partition_id = _partition_id
    and s.base_offset between reach.base_offset and greatest(upto, fence.next_offset + _read_ahead - 1)
    and (s.base_offset <= upto or s.layout <= fence.layout)    -- nor ahead over a barrier
  order by s.base_offset;
end
$$;
