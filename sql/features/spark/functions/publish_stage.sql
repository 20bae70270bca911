-- Publish the events of a stage, in the order they were sent, and drop it; events is their expected number. Call it in
-- the transaction that fenced the batch.
create or replace function gapless.publish_stage(_token uuid, _events bigint) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
set synchronize_seqscans = off    -- a scan that joins another one begins in the middle
as $$
declare
  name text := 'stage_' || replace(_token::text, '-', '');
  taken bigint;
begin
  execute format(
    'insert into gapless.outbox_message_t (topic_id, key, host_id, user_id, transaction_id,'
    ' event_type, payload, headers) select s.topic_id, s.key, gapless.canonical_host(s.host_id), s.user_id,'
    ' s.transaction_id, s.event_type, s.payload, s.headers from gapless.%I s',
    name);
  get diagnostics taken = row_count;
  if taken <> _events then
    raise exception 'stage % has % events instead of %: the server has crashed since; run the batch again',
      _token, taken, _events
      using errcode = 'GL001';
  end if;
  execute format('drop table gapless.%I', name);
  delete from gapless.stage s where s.token = _token;
end
$$;
