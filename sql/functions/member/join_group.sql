-- A supervisor joins as a member. It already holds the presence lock (7427002, member_no), so that a
-- member row never exists without one; the number comes from gapless.next_member_no().
create or replace function gapless.next_member_no()
returns int
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select nextval(pg_get_serial_sequence('gapless.member', 'member_no'))::int
$$;

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

-- Still here. Returns false when this member was evicted: kill the workers, join anew.
create or replace function gapless.beat(member_id uuid)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  update gapless.member m
  set beat = beat + 1, expires_at = clock_timestamp() + ttl, suspect_at = null,
    backend_pid = pg_backend_pid()
  where m.member_id = beat.member_id;
  return found;
end
$$;

-- SIGTERM: no partition is planned for this member any more.
create or replace function gapless.drain_member(member_id uuid)
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  update gapless.member m set state = 'draining' where m.member_id = drain_member.member_id
$$;

create or replace function gapless.leave_group(member_id uuid)
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  delete from gapless.member m where m.member_id = leave_group.member_id
$$;
