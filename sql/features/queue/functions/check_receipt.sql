-- Raise GL400 when a text is no receipt, or one of another group or topic; GL404 and GL409 as require_queue(); GL003
-- when its partition is gone.
create or replace function gapless.check_receipt(_group_id text, _topic text, _receipt text) returns void
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  wanted int := gapless.topic_id(_topic);
  held record;
begin
  perform gapless.require_queue(_group_id, wanted);
  select r.* into held from gapless.read_receipt(_receipt) r;
  if held.group_id <> _group_id or held.topic_id <> wanted then
    raise exception 'the receipt is not of group "%" and topic "%": give those that it was taken with',
      _group_id, _topic
      using errcode = 'GL400';
  end if;
end
$$;
