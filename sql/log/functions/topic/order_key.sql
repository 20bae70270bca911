-- Return the text that keeps an event in order: its key; without one, its host (a UUID in one spelling, however it was
-- inserted); without that, its transaction. One text, one partition (I4).
-- plan: inlined where events are routed.
create or replace function gapless.order_key(key text, host_id text, transaction_id uuid, xid xid8) returns text
language sql immutable parallel safe as $$
  select coalesce(
    order_key.key, gapless.canonical_host(order_key.host_id), order_key.transaction_id::text, order_key.xid::text
  )
$$;
