-- As programs called it that knew nothing of partitions_per_worker.
create or replace function gapless.join_group(
  member_id uuid, member_no int, name text, capacity int, ttl interval,
  groups text[], topics text[]
)
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select gapless.join_groups(
    join_group.member_id, join_group.member_no, join_group.name, join_group.capacity, 1,
    join_group.ttl, join_group.groups, join_group.topics
  )
$$;
