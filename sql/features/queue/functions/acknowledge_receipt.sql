-- acknowledge() for programs: the receipt names the group. Returns the number of events. Raises GL003 when the receipt
-- is no longer valid.
create or replace function gapless.acknowledge_receipt(_receipt text, _c_offset bigint default null) returns bigint
language sql security definer set search_path = pg_catalog, pg_temp as $$
  select gapless.settle_receipt(_receipt, _c_offset, session_user::text)
$$;
