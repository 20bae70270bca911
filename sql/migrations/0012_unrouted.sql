-- Events of a topic id that nobody made: kept (I1), counted, and without an offset until somebody adopts the
-- id. A producer makes no topic, whatever it inserts (I11).

-- Bounded: 100 ids have a row of their own, all others share the one of id 0.
create table gapless.unrouted (
  topic_id int primary key,
  events bigint not null,
  first_id bigint not null,            -- their ids are from here
  last_id bigint not null,             -- to here
  since_ts timestamptz not null default clock_timestamp()
);

comment on table gapless.unrouted is
  'Events of topic ids that nobody made, by id (0: of all further ids). gapless topics adopt makes them a topic.';

-- Only then is gapless.unrouted looked at: nearly always it is empty.
alter table gapless.sequencer add column has_unrouted boolean not null default false;

-- Ids come from the identity. So far they were the highest and one more.
do $$
declare
  highest int := (select max(t.topic_id) from gapless.topic t where t.topic_id < 1000000);
begin
  perform setval(pg_get_serial_sequence('gapless.topic', 'topic_id'), greatest(highest, 1));
end
$$;

drop trigger if exists name_outbox on gapless.topic;
drop function if exists gapless.name_outbox();
