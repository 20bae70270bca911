-- Claim a range that an earlier claim_at() returned ahead of what it claimed, in the caller's open
-- transaction: what was read ahead needs no second look, for nothing of the log ever changes (I3).
-- first_offset and last_offset, both inclusive, MUST be the ends of neighbouring whole units (I5).
-- Returns claim_xid, for finish_batch(), and where the group's row is now; no row, and nothing was
-- written, when the range is not what comes next (any more), the partition is paused, or (epoch,
-- token) is no longer its owner: ask claim_at(), which tells them apart.
-- locks: the consumer_offsets row until the transaction ends
create or replace function gapless.claim_ahead(
  group_id text, topic_id int, partition_id int, epoch bigint, token uuid,
  first_offset bigint, last_offset bigint, place tid
)
returns table (claim_xid text, place_after tid)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  if exists (
    select from gapless.group_pause p
    where p.group_id = claim_ahead.group_id and p.topic_id = claim_ahead.topic_id
      and p.partition_id in (-1, claim_ahead.partition_id)
  ) then
    return;
  end if;
  place_after := gapless.advance_offset(
    group_id, topic_id, partition_id, epoch, token, first_offset, last_offset + 1, null, place
  );
  if place_after is not null then
    claim_xid := pg_current_xact_id()::text;
    return next;
  end if;
end
$$;

-- Move a group's offset from first_offset to next_offset for its owner (I6, I7). Returns where the
-- row is now; null, and nothing was written, unless the fence and the offset are as the caller says.
-- By its place first: while an old snapshot is held, a look-up by key walks all versions of the row
-- that were since, thousands of them. A place is a hint only: the row there is compared by key.
-- layout: null leaves it as it is.
create or replace function gapless.advance_offset(
  group_id text, topic_id int, partition_id int, epoch bigint, token uuid,
  first_offset bigint, next_offset bigint, layout int, place tid
)
returns tid
language plpgsql
as $$
#variable_conflict use_column
declare
  moved tid;
begin
  perform set_config('gapless.chain', 'open', true);    -- see cause.sql
  update gapless.consumer_offsets c
  set next_offset = advance_offset.next_offset, layout = coalesce(advance_offset.layout, c.layout)
  where c.ctid = advance_offset.place
    and c.group_id = advance_offset.group_id and c.topic_id = advance_offset.topic_id
    and c.partition_id = advance_offset.partition_id
    and c.epoch = advance_offset.epoch and c.token = advance_offset.token
    and c.next_offset = advance_offset.first_offset
  returning c.ctid into moved;
  if found then
    return moved;
  end if;
  update gapless.consumer_offsets c
  set next_offset = advance_offset.next_offset, layout = coalesce(advance_offset.layout, c.layout)
  where c.group_id = advance_offset.group_id and c.topic_id = advance_offset.topic_id
    and c.partition_id = advance_offset.partition_id
    and c.epoch = advance_offset.epoch and c.token = advance_offset.token
    and c.next_offset = advance_offset.first_offset
  returning c.ctid into moved;
  return moved;
end
$$;
