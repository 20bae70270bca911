-- Drain a member (SIGTERM): no partition is planned for it any more.
create or replace function gapless.drain_member(_member_id uuid) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update gapless.member m set state = 'draining' where m.member_id = _member_id
$$;
