-- Remove a version of the schema of an event type, or all versions; for operators. The newest version that is left
-- counts from then on, within 5 s; without one, the schema of * checks the type, if there is one.
-- event_type: null, or *: the schema for types without a schema of their own. version: null: all.
-- Returns the number of removed versions. Raises GL404 for an unknown topic, and where there is no version.
-- locks: the topic's row
create or replace function gapless.remove_schema(topic text, event_type text default null, version int default null)
returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
  id_of_topic int := gapless.topic_id(topic);
  type_of_event text := coalesce(event_type, '*');
  removed int;
begin
  perform from gapless.topic t where t.topic_id = id_of_topic for no key update;
  update gapless.topic_schema s set removed_ts = clock_timestamp()
  where s.topic_id = id_of_topic and s.event_type = type_of_event and s.removed_ts is null
    and (version is null or s.version = version);
  get diagnostics removed = row_count;
  if removed = 0 then
    raise exception 'there is no % of a schema of %/%: gapless schemas list shows them',
      coalesce('version ' || version, 'version'), topic, left(type_of_event, 200)
      using errcode = 'GL404';
  end if;
  update gapless.topic t
  set schemas_no = greatest(t.schemas_no + 1, (extract(epoch from clock_timestamp()) * 1000000)::bigint)
  where t.topic_id = id_of_topic;
  insert into gapless.audit (action, group_id, topic_id, detail)
  values (
    'remove schema', '', id_of_topic,
    jsonb_build_object('event_type', type_of_event, 'version', version, 'versions', removed)
  );
  return removed;
end
$$;
