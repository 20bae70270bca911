-- Messages to one subscription of a group: a header more of direct messages (direct_headers.sql), so no table changes.
-- What publishes gets an argument more, with a default, and match_events() two; so they are made anew.

drop function if exists gapless.publish(
  text, json, text, text, jsonb, text, text, uuid, text, timestamptz, interval, text
);
drop function if exists gapless.publish_each(
  text, text[], text[], text[], text[], text[], text[], text[], text[], text[], text[], text[]
);
drop function if exists gapless.publish_request(
  text, text, bytea, text[], text[], text[], text[], text[], text[], text[], text[], text[]
);
drop function if exists gapless.request(text, json, interval, text, text, text, jsonb, text, text);
drop function if exists gapless.direct_headers(text, jsonb, text);
drop function if exists gapless.match_events(text, int, bigint[]);

-- Of 0007 to 0012; their files went, and nothing had dropped them.
drop function if exists gapless.find_ids(int, int, bigint[], timestamptz);
drop function if exists gapless.offset_at(int, int, timestamptz);
drop function if exists gapless.revive_partitions(text);
