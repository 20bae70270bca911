-- Return the transaction_id of events without one of their own: a UUID (version 8) that carries the publishing xid, and
-- the timeline on which it was given, unless that is the first.
-- MUST stay one expression: such a function is inlined; with FROM it would run as a query of its own for every
-- published event.
create or replace function gapless.transaction_uuid(xid xid8, timeline int default null) returns uuid
language sql immutable parallel safe as $$
  select (
    lpad(to_hex(case when timeline > 1 then timeline else 0 end), 8, '0') || '-0000-8000-8'
    || substr(lpad(to_hex(xid::text::bigint), 16, '0'), 2, 3)
    || '-' || substr(lpad(to_hex(xid::text::bigint), 16, '0'), 5)
  )::uuid
$$;
