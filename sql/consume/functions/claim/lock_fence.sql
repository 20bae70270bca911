-- Lock the row that every batch locks, and tell whether (epoch, token) still owns the partition (I7).
create or replace function gapless.lock_fence(
  _group_id text, _topic_id int, _partition_id int, _epoch bigint, _token uuid
) returns boolean
language sql security definer set search_path = pg_catalog, pg_temp as $$
  select gapless.lock_offset(_group_id, _topic_id, _partition_id, _epoch, _token) is not null
$$;
