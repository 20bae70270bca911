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

-- Of 0007 to 0012, and of 0026 to 0028; their files went, and nothing had dropped them.
drop function if exists gapless.find_ids(int, int, bigint[], timestamptz);
drop function if exists gapless.offset_at(int, int, timestamptz);
drop function if exists gapless.revive_partitions(text);
drop function if exists gapless.stand_for(text, int, text);
drop function if exists gapless.stand_for(int, text, bigint[], boolean);

-- As it was at 0032, its file of today cannot replace it: a column came before its last one.
do $$
begin
  if not exists (
    select from pg_catalog.pg_attribute a
    where a.attrelid = to_regclass('gapless.subscribed_groups') and a.attname = 'stopped'
  ) then
    drop view if exists gapless.subscribed_groups;
  end if;
end
$$;
