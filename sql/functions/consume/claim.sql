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
