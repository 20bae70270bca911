-- Return the timeline that a transaction_id of gapless.transaction_uuid() carries; null for any other.
create or replace function gapless.timeline_of(_transaction_id uuid) returns int
language sql immutable strict parallel safe as $$
  select case
    when gapless.xid_of(_transaction_id) is not null
      then greatest(('x' || left(_transaction_id::text, 8))::bit(32)::int, 1)
  end
$$;
