-- Join as programs called it that did not know partitions_per_worker.
create or replace function gapless.join_group(
  _member_id uuid, _member_no int, _name text, _capacity int, _ttl interval,
  _groups text[], _topics text[]
) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  select gapless.join_groups(_member_id, _member_no, _name, _capacity, 1, _ttl, _groups, _topics)
$$;
