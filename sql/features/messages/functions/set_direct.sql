-- Let a topic take direct messages: events for one group, which all others pass. Every group of the topic looks for
-- them from its next claim on. This cannot be undone: messages may be in the log, and every group would handle them.
-- Returns whether that is a change. Raises GL404 for an unknown topic.
-- locks: the topic's row, so that no group is made at this moment; then those of its groups, then of their offsets:
--   it waits for the batches in hand
create or replace function gapless.set_direct(topic text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  here gapless.topic;
  each record;
  number int;
begin
  select t.* into strict here from gapless.topic t
  where t.topic_id = gapless.topic_id(set_direct.topic)
  for no key update;
  if here.direct then
    return false;
  end if;
  update gapless.topic t set direct = true where t.topic_id = here.topic_id;
  for each in
    select g.group_id from gapless.consumer_group g
    where g.topic_id = here.topic_id
    order by g.group_id
    for no key update
  loop
    -- A new number for the filter: a claim that has just read the filter reads it again.
    update gapless.group_filter f set filter_no = default
    where f.group_id = each.group_id and f.topic_id = here.topic_id
    returning f.filter_no into number;
    perform gapless.stamp_filter(each.group_id, here.topic_id, coalesce(number, -1));
    number := null;
  end loop;
  insert into gapless.audit (action, group_id, topic_id) values ('direct', '', here.topic_id);
  return true;
end
$$;
