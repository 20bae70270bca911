-- Declare handled what claim_receipt() claimed; the caller's next statement is COMMIT. Returns false when this is no
-- longer the transaction that claimed it. Of a unit that only waited nothing is kept.
create or replace function gapless.finish_receipt(_group_id text, _topic text, _receipt text, _claim_xid text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
  held record;
begin
  select r.* into held from gapless.read_receipt(_group_id, _topic, _receipt) r;
  if held.kind = 'L' then
    return gapless.finish_letter(_group_id, held.topic_id, held.partition_id, held.first_offset, _claim_xid);
  end if;
  return gapless.finish_units(_claim_xid, 1);
end
$$;
