-- Record a heartbeat. Returns false when this member was evicted: kill the workers, and join anew.
create or replace function gapless.beat(_member_id uuid) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
  place tid;
begin
  -- The newest version, as member_row(), also if a peer has just changed it.
  select m.ctid into place from gapless.member m
  where m.member_id between _member_id and _member_id
  order by m.member_id desc limit 1
  for update;
  update gapless.member m
  set beat = beat + 1, expires_at = clock_timestamp() + ttl, suspect_at = null,
    backend_pid = pg_backend_pid()
  where m.ctid = place;
  return found;
end
$$;
