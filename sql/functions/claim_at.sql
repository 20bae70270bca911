-- Claim the next range of a partition for a group, in the caller's open transaction: the group's
-- offset moves now and commits, or not, with whatever the handler writes (I6).
--
-- Returns one row per segment that overlaps the range, or a single row that says why there is none:
--   outcome 'claimed'  offsets first_offset .. last_offset (both inclusive) are this transaction's;
--                      the n-th id of message_ids has offset base_offset + n - 1
--   outcome 'idle'     nothing new, or paused; nothing was written: no xid, no WAL
--   outcome 'overrun'  retention dropped offsets first_offset .. last_offset before the group was there
--   outcome 'hole'     offsets first_offset .. last_offset are missing although later ones are there
--   outcome 'fenced'   (epoch, token) is no longer the partition's owner: stop (I7)
-- The range has batch_size events at most, but is extended to the end of its last unit (I5).
-- After a change of the number of partitions it ends at the barrier, and what lies behind it is idle
-- until the partitions that had its keys before are done (functions/barrier.sql).
-- claim_xid goes back to gapless.finish_batch() before COMMIT.
-- read_ahead: segments of so many events, from first_offset on, are returned although later ones than
-- last_offset are not claimed yet; claim_ahead() claims them, as far as their units are whole.
-- place: where the group's row was after the last claim, as returned by it; null when not known.
-- locks: the consumer_offsets row until the transaction ends
create or replace function gapless.claim_at(
  group_id text, topic_id int, partition_id int, epoch bigint, token uuid, batch_size int,
  read_ahead int, place tid
)
returns table (
  outcome text, first_offset bigint, last_offset bigint, claim_xid text, place_after tid,
  base_offset bigint, message_ids bigint[], unit_ends text
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off    -- a plan made while there were few segments may be kept for long
as $$
#variable_conflict use_column
declare
  fence record;
  kept_from bigint;    -- null: nothing was dropped
  goal bigint;
  reach bigint[];      -- the last offset of the range, and its layout
  upto bigint;
  from_base bigint;
  from_layout int;
  moved tid;
begin
  select * into fence from gapless.consumer_offsets c
  where c.ctid = claim_at.place and c.group_id = claim_at.group_id and c.topic_id = claim_at.topic_id
    and c.partition_id = claim_at.partition_id;
  if not found then
    select * into fence from gapless.consumer_offsets c
    where c.group_id = claim_at.group_id and c.topic_id = claim_at.topic_id
      and c.partition_id = claim_at.partition_id;
  end if;
  if not found or fence.epoch <> claim_at.epoch or fence.token is distinct from claim_at.token then
    outcome := 'fenced';
    return next;
    return;
  end if;
  -- Here too, not only where workers are let go: whoever drives the step, it stops at once.
  if exists (
    select from gapless.group_pause p
    where p.group_id = claim_at.group_id and p.topic_id = claim_at.topic_id
      and p.partition_id in (-1, claim_at.partition_id)
  ) then
    outcome := 'idle';
    first_offset := fence.next_offset;
    return next;
    return;
  end if;

  select l.first_offset into kept_from from gapless.log_start l
  where l.topic_id = claim_at.topic_id and l.partition_id = claim_at.partition_id;
  if fence.next_offset < kept_from then
    outcome := 'overrun';
    first_offset := fence.next_offset;
    last_offset := kept_from - 1;
    return next;
    return;
  end if;

  -- The segment that holds next_offset, if it was written yet. MUST stay one statement: in a later
  -- snapshot, segments written meanwhile would look like a hole.
  select s.base_offset, s.layout into from_base, from_layout from gapless.log_segment s
  where s.topic_id = claim_at.topic_id and s.partition_id = claim_at.partition_id
    and s.base_offset >= coalesce(
      (
        select b.base_offset from gapless.log_segment b
        where b.topic_id = claim_at.topic_id and b.partition_id = claim_at.partition_id
          and b.base_offset <= fence.next_offset
        order by b.base_offset desc limit 1
      ), 0)
    and s.last_offset >= fence.next_offset
  order by s.base_offset
  limit 1;
  if not found then
    if fence.passed < (select t.layout from gapless.topic t where t.topic_id = claim_at.topic_id) then
      perform gapless.pass_barrier(group_id, topic_id, partition_id, epoch, token);
    end if;
    outcome := 'idle';
    first_offset := fence.next_offset;
    return next;
    return;
  end if;
  if from_base > fence.next_offset then
    outcome := 'hole';
    first_offset := fence.next_offset;
    last_offset := from_base - 1;
    return next;
    return;
  end if;

  -- The first unit end at or after the goal, else the end of the log: a run's last event always ends
  -- a unit. MUST stay one statement: in a later snapshot the log may end a million events later.
  goal := fence.next_offset + batch_size - 1;
  select coalesce(
    (
      select array[
        s.base_offset + x.skip + position(b'1' in substring(s.unit_ends from x.skip + 1)) - 1,
        s.layout
      ]
      from gapless.log_segment s
      cross join lateral (select greatest(goal - s.base_offset, 0)::int as skip) x
      where s.topic_id = claim_at.topic_id and s.partition_id = claim_at.partition_id
        and s.base_offset >= coalesce(
          (
            select b.base_offset from gapless.log_segment b
            where b.topic_id = claim_at.topic_id and b.partition_id = claim_at.partition_id
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
      where s.topic_id = claim_at.topic_id and s.partition_id = claim_at.partition_id
      order by s.base_offset desc limit 1
    )
  ) into reach;
  upto := reach[1];

  -- Events of a layout that was not admitted here yet: are those before them done, everywhere?
  if reach[2] > fence.layout then
    if from_layout > fence.passed then
      perform gapless.announce(group_id, topic_id, partition_id, fence.passed, from_layout);
      update gapless.consumer_offsets c set passed = from_layout
      where c.group_id = claim_at.group_id and c.topic_id = claim_at.topic_id
        and c.partition_id = claim_at.partition_id and c.epoch = claim_at.epoch and c.token = claim_at.token;
    end if;
    if from_layout > fence.layout then
      if exists (select from gapless.blockers(group_id, topic_id, partition_id, from_layout)) then
        outcome := 'idle';
        first_offset := fence.next_offset;
        return next;
        return;
      end if;
      fence.layout := from_layout;
    end if;
    if reach[2] > from_layout then    -- not across a barrier: a run ends its last unit (I5)
      select b.last_offset into strict upto from gapless.barrier b
      where b.topic_id = claim_at.topic_id and b.layout = from_layout
        and b.partition_id = claim_at.partition_id;
    end if;
  end if;

  moved := gapless.advance_offset(
    group_id, topic_id, partition_id, epoch, token, fence.next_offset, upto + 1, fence.layout, place
  );
  if moved is null then
    outcome := 'fenced';
    return next;
    return;
  end if;

  return query
  select 'claimed', fence.next_offset, upto, pg_current_xact_id()::text, moved,
    s.base_offset, s.message_ids, s.unit_ends::text
  from gapless.log_segment s
  where s.topic_id = claim_at.topic_id and s.partition_id = claim_at.partition_id
    and s.base_offset between from_base and greatest(upto, fence.next_offset + read_ahead - 1)
    and (s.base_offset <= upto or s.layout <= fence.layout)    -- nor ahead over a barrier
  order by s.base_offset;
end
$$;

-- As claim_at(), for whoever needs neither of its hints.
create or replace function gapless.claim(
  group_id text, topic_id int, partition_id int, epoch bigint, token uuid, batch_size int
)
returns table (
  outcome text, first_offset bigint, last_offset bigint, claim_xid text,
  base_offset bigint, message_ids bigint[], unit_ends text
)
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select a.outcome, a.first_offset, a.last_offset, a.claim_xid, a.base_offset, a.message_ids,
    a.unit_ends
  from gapless.claim_at(
    claim.group_id, claim.topic_id, claim.partition_id, claim.epoch, claim.token, claim.batch_size,
    0, null
  ) a
$$;
