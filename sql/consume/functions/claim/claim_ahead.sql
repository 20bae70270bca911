-- Claim a range that an earlier claim_at() returned ahead of its claim, in the caller's open transaction: events that
-- were read ahead need no second look, because the log never changes (I3). first_offset and last_offset, both
-- inclusive, MUST be the ends of neighbouring whole units (I5). Returns claim_xid, for finish_batch(), and the new
-- place of the group's row; no row, without a write, when the range is not next (any more), the partition is paused, or
-- (epoch, token) is no longer its owner: ask claim_at(), which tells them apart.
-- locks: the consumer_offsets row until the transaction ends
create or replace function gapless.claim_ahead(
  _group_id text, _topic_id int, _partition_id int, _epoch bigint, _token uuid,
  _first_offset bigint, _last_offset bigint, _place tid
) returns table (claim_xid text, place_after tid)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off    -- as claim_at()
set jit = off as $$
#variable_conflict use_column
begin
  if exists (
    select from gapless.group_pause p
    where p.group_id = _group_id and p.topic_id = _topic_id
      and p.partition_id in (-1, _partition_id)
  ) then
    return;
  end if;
  place_after := gapless.advance_offset(
    _group_id, _topic_id, _partition_id, _epoch, _token, _first_offset, _last_offset + 1, null, _place
  );
  if place_after is not null then
    claim_xid := pg_current_xact_id()::text;
    return next;
  end if;
end
$$;
