-- Still here. Returns false when this member was evicted: kill the workers, join anew.
create or replace function gapless.beat(_member_id uuid)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update gapless.member m
  set beat = beat + 1, expires_at = clock_timestamp() + ttl, suspect_at = null,
    backend_pid = pg_backend_pid()
  where m.member_id = _member_id;
  return found;
end
$$;
