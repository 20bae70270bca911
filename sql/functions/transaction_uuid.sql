-- The transaction_id of events that named none: a UUID (version 8) that carries the publishing xid.
create or replace function gapless.transaction_uuid(xid xid8)
returns uuid
language sql
immutable strict parallel safe
as $$
  select ('00000000-0000-8000-8' || substr(h, 2, 3) || '-' || substr(h, 5))::uuid
  from (select lpad(to_hex(xid::text::bigint), 16, '0')) as x (h)
$$;
