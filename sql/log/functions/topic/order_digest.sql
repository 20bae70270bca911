-- Return an order_key() as 16 bytes, for an index: a key may be longer than one takes.
-- plan: inlined, so it sets no search_path and says where functions are; a call costs more than a look-up of its event.
create or replace function gapless.order_digest(_order_key text) returns bytea
language sql stable parallel safe as $$
  select substring(pg_catalog.sha256(pg_catalog.convert_to(_order_key, 'UTF8')) from 1 for 16)
$$;
