-- The transaction_id of events that named none: a UUID (version 8) that carries the publishing xid.
-- MUST stay one expression: such a function is put in the place of its call; with FROM it would run as
-- a query of its own, which every event that is published would pay for.
create or replace function gapless.transaction_uuid(xid xid8)
returns uuid
language sql
immutable strict parallel safe
as $$
  select (
    '00000000-0000-8000-8' || substr(lpad(to_hex(xid::text::bigint), 16, '0'), 2, 3)
    || '-' || substr(lpad(to_hex(xid::text::bigint), 16, '0'), 5)
  )::uuid
$$;
