-- Return the text that keeps an event in order, from which sequence_events() chooses the partition, as 16 bytes.
-- plan: inlined, as order_digest().
create or replace function gapless.key_digest(_event gapless.outbox_message_t) returns bytea
language sql stable as $$
  select gapless.order_digest(
    gapless.order_key((_event).key, (_event).host_id, (_event).transaction_id, (_event).xid)
  )
$$;
