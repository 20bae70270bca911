-- Reject the events of a receipt of take(): they are dead, with the reason, and stay in the dead letter queue until a
-- person redrives or discards them. Returns the number of events. c_offset: only the event at that offset.
--   select gapless.reject('sender', 'mails', receipt, 'bad address');
-- Raises GL400 without a reason, GL003 when the receipt is no longer valid.
create or replace function gapless.reject(
  group_id text, topic text, receipt text, reason text, c_offset bigint default null
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
  if coalesce(trim(reason), '') = '' then
    raise exception 'an event is rejected with a reason' using errcode = 'GL400';
  end if;
  perform gapless.check_receipt(group_id, topic, receipt);
  return gapless.fail_receipt(
    receipt, c_offset, 'dead', left(reason, 500), reason, _worker => session_user::text
  );
end
$$;
