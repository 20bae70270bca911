-- A supervisor joins as a member, and its groups with it. It already holds the presence lock (7427002,
-- member_no), so that a member row never exists without one; the number comes from next_member_no().
create or replace function gapless.join_groups(
  member_id uuid, member_no int, name text, capacity int, partitions_per_worker int, ttl interval,
  groups text[], topics text[]
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into gapless.member (
    member_id, member_no, name, capacity, partitions_per_worker, ttl, expires_at, backend_pid
  )
    overriding system value
  values (
    join_groups.member_id, join_groups.member_no, join_groups.name, join_groups.capacity,
    join_groups.partitions_per_worker, join_groups.ttl, clock_timestamp() + join_groups.ttl,
    pg_backend_pid()
  );
  insert into gapless.member_group (member_id, group_id, topic_id)
  select join_groups.member_id, u.group_id, gapless.topic_id(u.topic)
  from unnest(join_groups.groups, join_groups.topics) as u (group_id, topic);
end
$$;
