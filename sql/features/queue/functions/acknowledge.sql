-- Say that what a receipt of take() holds was handled; returns how many events. In your own transaction it commits, or
-- not, with what you write: exactly once. c_offset: of that event only.
--   select gapless.acknowledge('sender', 'mails', receipt => '…');
-- A receipt counts until somebody else took the events, also after its time. Raises GL003 when it counts no more, GL400
-- when it is none of this group and topic.
create or replace function gapless.acknowledge(group_id text, topic text, receipt text, c_offset bigint default null)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_variable
begin
  perform gapless.check_receipt(group_id, topic, receipt);
  return gapless.acknowledge_receipt(receipt, c_offset);
end
$$;
