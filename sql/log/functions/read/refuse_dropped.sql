-- Raise 40001 when retention dropped one of these events, and it is not kept beside the log: another has replaced it,
-- such as a newer one of its key.
create or replace function gapless.refuse_dropped(_message_ids bigint[]) returns void
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  dropped bigint;
begin
  select u.id into dropped
  from unnest(_message_ids) as u (id), gapless.retention_state s
  where u.id < s.dropped_upto
    and not exists (select from gapless.events_beside b where b.id = u.id)
    and not exists (select from gapless.outbox_message_t o where o.id = u.id)
  limit 1;
  if found then
    raise exception 'event % was dropped, and is not the latest of its key any more: try again', dropped
      using errcode = 'serialization_failure';
  end if;
end
$$;
