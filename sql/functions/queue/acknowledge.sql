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
as $$
#variable_conflict use_variable
declare
  held record;
  events bigint;
begin
  events := gapless.settle_receipt(group_id, topic, receipt, c_offset, session_user::text);
  select r.* into held from gapless.read_receipt(group_id, topic, receipt) r;
  if held.kind = 'L' then
    perform gapless.close_letter(group_id, held.topic_id, held.partition_id, held.first_offset);
  end if;
  return events;
end
$$;
