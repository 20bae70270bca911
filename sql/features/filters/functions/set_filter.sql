-- Let a group take only the matching events of a topic; the group's offset passes other events without reading or
-- handling them. The filter acts from the next claim on, and only on events that the group has not handled yet.
-- event_types: 1 to 100 types of 1 to 200 characters each, in which at most 3 * stand for any characters; null: any.
-- condition: a jsonpath predicate over the payload, '$.total > $min'; null: none. An event does not match if the
-- condition is false or unknown for it (another type, no such field), nor if its payload is no jsonb (kept_in.sql).
-- params: an object with a value for each variable of the condition.
-- Returns whether the filter changed. Raises GL400 for an invalid filter, for a queue group, and for a group with
-- subscriptions; GL404 for an unknown group.
-- locks: the group's row, then those of its offsets: it waits for the batches in hand
create or replace function gapless.set_filter(
  group_id text, topic text, event_types text[] default null, condition text default null, params jsonb default null
) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  wanted int := gapless.topic_id(topic);
  path jsonpath := gapless.checked_condition(set_filter.condition, set_filter.params);
  given jsonb := coalesce(set_filter.params, '{}');
  here gapless.consumer_group;
  number int;
begin
  if set_filter.event_types is null and path is null then
    raise exception 'a filter has event types or a condition: clear_filter() takes the filter away'
      using errcode = 'GL400';
  end if;
  perform gapless.check_event_types(set_filter.event_types);
  select g.* into here from gapless.consumer_group g
  where g.group_id = set_filter.group_id and g.topic_id = wanted
  for no key update;
  if not found then
    perform gapless.group_partitions(set_filter.group_id, set_filter.topic);
    return false;
  end if;
  if here.mode = 'queue' then
    raise exception 'group "%" is a queue, and only an ordered group has a filter', set_filter.group_id
      using errcode = 'GL400';
  end if;
  if exists (
    select from gapless.group_filter f
    where f.group_id = set_filter.group_id and f.topic_id = wanted and f.subscribed
  ) then
    raise exception 'group "%" takes the events that its subscriptions match, and has no filter beside them',
      set_filter.group_id
      using errcode = 'GL400';
  end if;
  if exists (
    select from gapless.group_filter f
    where f.group_id = set_filter.group_id and f.topic_id = wanted
      and f.event_types is not distinct from set_filter.event_types
      and f.condition::text is not distinct from path::text and f.params = given
  ) then
    return false;
  end if;
  delete from gapless.group_filter f where f.group_id = set_filter.group_id and f.topic_id = wanted;
  insert into gapless.group_filter (group_id, topic_id, event_types, condition, params)
  values (set_filter.group_id, wanted, set_filter.event_types, path, given)
  returning filter_no into number;
  perform gapless.stamp_filter(set_filter.group_id, wanted, number);
  insert into gapless.audit (action, group_id, topic_id, detail)
  values (
    'filter', set_filter.group_id, wanted,
    jsonb_build_object('event_types', set_filter.event_types, 'where', path::text, 'params', given)
  );
  return true;
end
$$;
