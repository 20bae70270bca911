-- Revoke a key of the gateway; for operators. False: it was invalid already. It stays in the list. Gateways that have
-- just seen the key accept it for at most 5 s. Raises GL404 for an unknown key.
--   select gapless.revoke_api_key('a1b2c3d4e5f60718');
create or replace function gapless.revoke_api_key(key_id text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  update gapless.api_key k set revoked_ts = clock_timestamp()
  where k.key_id = revoke_api_key.key_id and k.revoked_ts is null;
  if found then
    insert into gapless.audit (action, group_id, topic_id, detail)
    values ('revoke-key', '', 0, jsonb_build_object('key', revoke_api_key.key_id));
    return true;
  end if;
  if not exists (select from gapless.api_key k where k.key_id = revoke_api_key.key_id) then
    raise exception 'there is no key "%": gapless keys lists them', left(revoke_api_key.key_id, 100)
      using errcode = 'GL404';
  end if;
  return false;
end
$$;
