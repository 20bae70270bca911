-- Let a supervisor leave all its groups: its member row is deleted, and its planned partitions are free.
create or replace function gapless.leave_group(_member_id uuid) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  delete from gapless.member m where m.member_id = _member_id
$$;
