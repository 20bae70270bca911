-- Has the deadline of a client passed? After a server start everyone gets its ttl once more, 5 s at least, as in
-- evict(): while the server was away nobody could renew it.
create or replace function gapless.is_overdue(_expires_at timestamptz, _ttl interval)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
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
