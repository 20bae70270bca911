-- Renew the deadline of a client from now on, and evict members that are gone; returns the deadline. Before:
-- client_of() has its row.
create or replace function gapless.renew_client(
  _member_id uuid, _group_id text, _topic_id int, _expires_at timestamptz, _ttl interval
) returns timestamptz
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
  now_ts timestamptz := clock_timestamp();
begin
  -- A client that polls all the time need not write each time.
  if now_ts + _ttl - _expires_at > _ttl / 20 or _expires_at > now_ts + _ttl then
    update gapless.member m set beat = m.beat + 1, expires_at = now_ts + _ttl
    where m.ctid = gapless.member_row(_member_id);
    _expires_at := now_ts + _ttl;
  end if;
  perform gapless.heal_letters();
  if gapless.watch(_member_id) then
    perform gapless.bound_idle(interval '5 s');
    perform gapless.evict(_member_id);
    perform gapless.sync(_group_id, _topic_id);
  end if;
  return _expires_at;
end
$$;
