-- Let a supervisor join as a member, and its groups with it. It already holds the presence lock (7427002, member_no),
-- so that a member row never exists without one; the number comes from next_member_no(). sessions: its own, without its
-- workers'. version, python: those that it runs on, for people.
create or replace function gapless.join_groups(
  _member_id uuid, _member_no int, _name text, _capacity int, _partitions_per_worker int, _ttl interval,
  _groups text[], _topics text[], _sessions int default 2,
  _version text default null, _python text default null
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into gapless.member (
    member_id, member_no, name, capacity, partitions_per_worker, ttl, expires_at, backend_pid, sessions,
    version, python
  )
    overriding system value
  values (
    _member_id, _member_no, _name, _capacity,
    _partitions_per_worker, _ttl, clock_timestamp() + _ttl,
    pg_backend_pid(), _sessions, _version, _python
  );
  insert into gapless.member_group (member_id, group_id, topic_id)
  select _member_id, u.group_id, gapless.topic_id(u.topic)
  from unnest(_groups, _topics) as u (group_id, topic);
end
$$;
