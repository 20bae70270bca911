-- Return the xid that a transaction_id of gapless.transaction_uuid() carries; null for any other.
create or replace function gapless.xid_of(_transaction_id uuid) returns xid8
language sql immutable strict parallel safe as $$
  select case
    when h ~ '^[0-9a-f]{8}000080008[0-9a-f]{15}$'
      then ('x0' || right(h, 15))::bit(64)::bigint::text::xid8
  end
  from (select replace(_transaction_id::text, '-', '')) as x (h)
$$;
