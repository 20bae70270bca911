-- Return a gateway's view of a valid key; no row: there is no valid one. The caller compares the digest. Notes, to the
-- minute, that it was used.
create or replace function gapless.find_api_key(
  _key_id text, out key_id text, out name text, out digest bytea, out scopes text[],
  out requests_s double precision
) returns setof record
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  found_key gapless.api_key;
  now_ts timestamptz := clock_timestamp();
begin
  select k.* into found_key from gapless.api_key k
  where k.key_id = _key_id and k.revoked_ts is null
    and (k.expires_ts is null or k.expires_ts > now_ts);
  if not found then
    return;
  end if;
  if (found_key.last_used_ts between now_ts - interval '1 minute' and now_ts) is not true then
    -- A key that a clock which was ahead made lives for its own time from now on.
    update gapless.api_key k
    set last_used_ts = now_ts, created_ts = least(k.created_ts, now_ts),
      expires_ts = least(k.expires_ts, now_ts + (k.expires_ts - k.created_ts))
    where k.ctid = (
      select l.ctid from gapless.api_key l where l.key_id = _key_id for update skip locked
    );
  end if;
  key_id := found_key.key_id;
  name := found_key.name;
  digest := found_key.digest;
  scopes := found_key.scopes;
  requests_s := found_key.requests_s;
  return next;
end
$$;
