-- Direct messages: events for one group of a topic. Which group is a header of the event (direct_headers.sql), so the
-- log's table stays as it is. Groups of a topic that takes direct messages claim as groups with a filter do
-- (claim_kept.sql); their filter_no is -1 when they have none.

alter table gapless.topic add column direct boolean not null default false;

comment on column gapless.topic.direct is
  'Whether events may be for one group: then every group looks for that, and passes what is for another.';

-- A replay handles what is for the group that its handler is of.
alter table gapless.consumer_group add column stands_for text;

comment on column gapless.consumer_group.stands_for is
  'Of a scratch group: the group whose direct messages it takes; null: its own.';

-- An argument more, with a default.
drop function if exists gapless.publish(
  text, json, text, text, jsonb, text, text, uuid, text, timestamptz, interval
);
drop function if exists gapless.publish_each(
  text, text[], text[], text[], text[], text[], text[], text[], text[], text[], text[]
);
drop function if exists gapless.kept_in(int, int, bigint, bigint, gapless.group_filter);
