-- Delete the ranges and floors of a lease that is deleted, with its group or with its partition.
-- This is no foreign key, which would lock the lease's row for each range that is taken.
create or replace function gapless.forget_ranges() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from gapless.queue_range r where r.lease_no = old.lease_no;
  delete from gapless.queue_floor f where f.lease_no = old.lease_no;
  return null;
end
$$;

create or replace trigger forget_ranges after delete on gapless.lease
for each row execute function gapless.forget_ranges();
