-- Keys of the gateway, with their rights over HTTP. A secret is 256 random bits, and only its SHA-256 is stored, so a
-- reader of this table gains no access.

create table gapless.api_key (
  key_id text primary key,             -- the public part of the key
  name text not null,                  -- for people
  digest bytea not null,               -- SHA-256 of the secret
  scopes text[] not null,              -- publish:TOPIC, read:TOPIC, consume:GROUP, operate; * at the end is any
  requests_s double precision,         -- requests a second, at most, at each gateway; null: any number
  created_ts timestamptz not null default clock_timestamp(),
  created_by text not null default session_user,
  expires_ts timestamptz,              -- null: never
  last_used_ts timestamptz,            -- to the minute; null: never
  revoked_ts timestamptz               -- null: it is valid
);

comment on table gapless.api_key is 'Keys of the gateway; of the secret there is a digest.';
