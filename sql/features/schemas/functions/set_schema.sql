-- Give an event type of a topic a new version of its schema; for operators. Checking programs see it within 5 s.
-- event_type: 1 to 200 characters; null, or *: every type that has no schema of its own, and events without a type.
-- compatibility: how the version has to relate to the one before: backward, forward, full or none; null: as for the one
-- before, else backward. PostgreSQL cannot compare schemas, nor validate one: gapless schemas add, and
-- ops.add_schema(), do so, and then pass after_version, the newest version that they compared with (0: none). null: no
-- comparison was made.
-- Returns the number of the version; the number of the newest one, if nothing would change.
-- Raises GL400 for an invalid schema, GL404 for an unknown topic, GL409 when after_version is not the newest.
-- locks: the topic's row
create or replace function gapless.set_schema(
  topic text, schema json, event_type text default null, compatibility text default null, after_version int default null
) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
  id_of_topic int := gapless.topic_id(topic);
  type_of_event text := coalesce(event_type, '*');
  newest gapless.topic_schema;
  wanted text;
  number int;
begin
  perform gapless.check_schema(schema, type_of_event, compatibility);
  perform from gapless.topic t where t.topic_id = id_of_topic for no key update;
  select s.* into newest from gapless.topic_schema s
  where s.topic_id = id_of_topic and s.event_type = type_of_event and s.removed_ts is null
  order by s.version desc
  limit 1;
  if after_version <> coalesce(newest.version, 0) then
    raise exception 'version % of the schema of %/% came between: compare with that one',
      coalesce(newest.version, 0), topic, type_of_event
      using errcode = 'GL409';
  end if;
  wanted := coalesce(compatibility, newest.compatibility, 'backward');
  if newest.schema::text = schema::text and newest.compatibility = wanted then
    return newest.version;
  end if;
  insert into gapless.topic_schema (topic_id, event_type, version, schema, compatibility)
  select id_of_topic, type_of_event, coalesce(max(s.version), 0) + 1, schema, wanted
  from gapless.topic_schema s
  where s.topic_id = id_of_topic and s.event_type = type_of_event
  returning topic_schema.version into number;
  update gapless.topic t
  set schemas_no = greatest(t.schemas_no + 1, (extract(epoch from clock_timestamp()) * 1000000)::bigint)
  where t.topic_id = id_of_topic;
  insert into gapless.audit (action, group_id, topic_id, detail)
  values (
    'schema', '', id_of_topic,
    jsonb_build_object('event_type', type_of_event, 'version', number, 'compatibility', wanted)
  );
  return number;
end
$$;
