-- Create a key of the gateway; for operators. digest: SHA-256 of its secret, which only its owner has.
--   select gapless.create_api_key('a1b2c3d4e5f60718', 'shop', sha256('…'), array['publish:orders', 'read:orders.*']);
-- scopes: publish:TOPIC, read:TOPIC, consume:GROUP, each with * at its end for any, or operate. requests_s: requests a
-- second; expires_in: the lifetime of the key. Raises GL400 for invalid arguments, GL409 for a key_id that is taken.
create or replace function gapless.create_api_key(
  key_id text, name text, digest bytea, scopes text[], requests_s double precision default null,
  expires_in interval default null
) returns timestamptz
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
  wrong text;
  expires_ts timestamptz := now() + expires_in;    -- MUST be now(): the maker's time that is left is counted from it
begin
  if coalesce(cardinality(scopes), 0) = 0 then
    raise exception 'a key without a scope opens nothing: publish:TOPIC, read:TOPIC, consume:GROUP or operate'
      using errcode = 'GL400';
  end if;
  select s into wrong from unnest(scopes) s
  where s is null or s !~ E'^(operate|(publish|read|consume):([^*:]{1,200}\\*?|\\*))$'
  limit 1;
  if found then
    raise exception '"%" is no scope: publish:TOPIC, read:TOPIC, consume:GROUP, with * at the end for any, or operate',
      coalesce(left(wrong, 100), 'null')
      using errcode = 'GL400';
  end if;
  if coalesce(length(name), 0) not between 1 and 200 then
    raise exception 'the name of a key has 1 to 200 characters' using errcode = 'GL400';
  end if;
  if requests_s <= 0 or requests_s = 'NaN' or requests_s > 1000000 then
    raise exception 'a rate is above 0, and at most 1000000 requests a second, not %', requests_s
      using errcode = 'GL400';
  end if;
  if expires_in is not null then
    perform gapless.require_interval('expiry', expires_in, false);
  end if;
  if octet_length(digest) <> 32 or key_id !~ '^[0-9a-f]{16}$' then
    raise exception 'a key has an id of 16 hexadecimal digits, and a digest of 32 bytes' using errcode = 'GL400';
  end if;
  insert into gapless.api_key (key_id, name, digest, scopes, requests_s, expires_ts)
  values (key_id, name, digest, scopes, requests_s, expires_ts);
  insert into gapless.audit (action, group_id, topic_id, detail)
  values ('create-key', '', 0, jsonb_build_object('key', key_id, 'name', name, 'scopes', scopes));
  return expires_ts;
exception when unique_violation then
  raise exception 'there is a key % already', key_id using errcode = 'GL409';
end
$$;
