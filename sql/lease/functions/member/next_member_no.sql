-- Return the number of the next member: the key of the presence lock that it takes before it joins.
create or replace function gapless.next_member_no() returns int
language sql security definer set search_path = pg_catalog, pg_temp as $$
  select nextval(pg_get_serial_sequence('gapless.member', 'member_no'))::int
$$;
