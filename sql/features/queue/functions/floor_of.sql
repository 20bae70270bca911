-- Return a queue group's place in a partition; nulls when the group is no queue, or has no such partition.
create or replace function gapless.floor_of(_lease_no int) returns gapless.queue_floor
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
  select f from gapless.queue_floor f
  where f.lease_no = _lease_no
  order by f.version desc limit 1
$$;
