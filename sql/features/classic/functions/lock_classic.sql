-- Lock the list of names that are shown or announced, until the transaction ends: a part of show_classic(),
-- hide_classic(), notify_classic() and silence_classic(). The first two have the caller's rights, which may not lock
-- the table.
-- lock: guard_classic
create or replace function gapless.lock_classic() returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  lock table gapless.guard_classic in exclusive mode;
end
$$;
