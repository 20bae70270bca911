-- Tell whether the deadline of a client has passed. After a server start every client gets its ttl once more, at least
-- 5 s, as in evict(): no client could renew it while the server was down.
create or replace function gapless.is_overdue(_expires_at timestamptz, _ttl interval) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  up_since timestamptz;
begin
  if _expires_at >= gapless.clock() then
    return false;
  end if;
  up_since := gapless.up_since();
  return not (
    _expires_at - _ttl < up_since and gapless.clock() < up_since + greatest(interval '5 s', _ttl)
  );
end
$$;
