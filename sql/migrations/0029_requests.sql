-- A dedupe key may stand for what was published with it: the digest of a request's body, which tells a repetition from
-- another request with the same key (functions/publish/publish_once.sql). A column without a default: nothing is
-- rewritten. publish_once() gets an argument more, with a default: calls stay as they are.

alter table gapless.dedupe add column digest bytea;

comment on column gapless.dedupe.digest is 'Of what was published with the key; null: nobody said.';

drop function if exists gapless.publish_once(
  text, json, text, text, text, jsonb, text, text, uuid, timestamptz, interval
);
