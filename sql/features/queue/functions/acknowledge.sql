-- Acknowledge the events of a receipt of take() as handled; returns the number of events. In your own transaction, this
-- commits or rolls back with your writes: exactly once. c_offset: only the event at that offset.
--   select gapless.acknowledge('sender', 'mails', receipt => '…');
-- A receipt is valid until another session took its events, also after its time. Raises GL003 when it is no longer
-- valid, GL400 when it is no receipt of this group and topic.
create or replace function gapless.acknowledge(group_id text, topic text, receipt text, c_offset bigint default null)
returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
#variable_conflict use_variable
begin
  perform gapless.check_receipt(group_id, topic, receipt);
  return gapless.acknowledge_receipt(receipt, c_offset);
end
$$;
