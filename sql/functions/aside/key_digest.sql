-- What keeps an event in order, as sequence_events() takes it to choose the partition, as 16 bytes.
create or replace function gapless.key_digest(_event gapless.outbox_message_t)
returns bytea
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select substring(
    sha256(convert_to(
      gapless.order_key((_event).key, (_event).host_id, (_event).transaction_id, (_event).xid), 'UTF8'
    )) from 1 for 16
  )
$$;
