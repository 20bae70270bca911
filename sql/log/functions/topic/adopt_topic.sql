-- Create a topic for an id that producers have used before it had one. Its kept events get their offsets in the next
-- run of the sequencer, before newer events of the topic. Returns their number.
--   select gapless.adopt_topic(77, 'orders', 8);
-- Raises an error for an id that has no events, and for a name that exists.
create or replace function gapless.adopt_topic(
  topic_id int, name text, partitions int, keep_s double precision default null
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  kept bigint;
begin
  perform gapless.check_topic(adopt_topic.name, adopt_topic.partitions);
  lock table gapless.guard_topics in exclusive mode;
  if exists (select from gapless.topic t where t.name = adopt_topic.name) then
    raise exception 'there is a topic "%" already: give id % another name', name, adopt_topic.topic_id
      using errcode = 'GL409';
  end if;
  kept := gapless.list_unrouted(adopt_topic.topic_id);
  if kept is null then
    raise exception 'no event without a topic has id %: see gapless topics', adopt_topic.topic_id
      using errcode = 'GL404';
  end if;
  insert into gapless.topic (topic_id, name, partitions, retention)
  values (
    adopt_topic.topic_id, adopt_topic.name, adopt_topic.partitions,
    make_interval(secs => adopt_topic.keep_s)
  );
  insert into gapless.audit (action, group_id, topic_id, detail)
  values (
    'adopt', '', adopt_topic.topic_id,
    jsonb_build_object('topic', adopt_topic.name, 'events', kept)
  );
  perform pg_notify('gapless_sequencer', '');
  return kept;
end
$$;
