-- Hold the events of a receipt of take() for so long from now on; returns until when. c_offset: only the event at that
-- offset.
-- Raises GL400 for a visibility that is not above zero, or infinite; GL003 when the receipt is no longer valid.
create or replace function gapless.extend(
  group_id text, topic text, receipt text, visibility interval default '60 s', c_offset bigint default null
) returns timestamptz
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
#variable_conflict use_variable
begin
  perform gapless.check_receipt(group_id, topic, receipt);
  return gapless.extend_receipt(receipt, visibility, c_offset);
end
$$;
