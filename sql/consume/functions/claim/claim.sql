-- Claim as claim_at(), for callers that need neither of its hints.
create or replace function gapless.claim(
  _group_id text, _topic_id int, _partition_id int, _epoch bigint, _token uuid, _batch_size int
) returns table (
  outcome text, first_offset bigint, last_offset bigint, claim_xid text,
  base_offset bigint, message_ids bigint[], unit_ends text
)
language sql security definer set search_path = pg_catalog, pg_temp as $$
  select a.outcome, a.first_offset, a.last_offset, a.claim_xid, a.base_offset, a.message_ids,
    a.unit_ends
  from gapless.claim_at(_group_id, _topic_id, _partition_id, _epoch, _token, _batch_size, 0, null) a
$$;
