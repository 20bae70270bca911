-- The transaction_id of events that named none: a UUID (version 8) that carries the publishing xid, and
-- the timeline it was given on if that is not the first.
-- MUST stay one expression: such a function is put in the place of its call; with FROM it would run as
-- a query of its own, which every event that is published would pay for.
create or replace function gapless.transaction_uuid(xid xid8, timeline int default null)
returns uuid
language sql
immutable parallel safe
as $$
  select (
    lpad(to_hex(case when timeline > 1 then timeline else 0 end), 8, '0') || '-0000-8000-8'
    || substr(lpad(to_hex(xid::text::bigint), 16, '0'), 2, 3)
    || '-' || substr(lpad(to_hex(xid::text::bigint), 16, '0'), 5)
  )::uuid
$$;
