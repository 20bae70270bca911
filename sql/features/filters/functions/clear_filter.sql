-- Let a group take all events of a topic again, from the next claim on. Returns whether it had a filter. Events that
-- were passed under the filter stay passed: seek() moves the group back. Raises GL404 for an unknown group, GL400 for a
-- group with subscriptions. A group that lost its last subscription, and so takes nothing, takes all events again.
-- locks: as set_filter()
create or replace function gapless.clear_filter(group_id text, topic text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  wanted int := gapless.topic_id(topic);
begin
  perform from gapless.consumer_group g
  where g.group_id = clear_filter.group_id and g.topic_id = wanted
  for no key update;
  if not found then
    perform gapless.group_partitions(clear_filter.group_id, clear_filter.topic);
    return false;
  end if;
  perform from gapless.group_filter f
  where f.group_id = clear_filter.group_id and f.topic_id = wanted
  for update;
  if exists (
    select from gapless.subscription s where s.group_id = clear_filter.group_id and s.topic_id = wanted
  ) then
    raise exception 'group "%" takes the events that its subscriptions match: unsubscribe() all of them first',
      clear_filter.group_id
      using errcode = 'GL400';
  end if;
  delete from gapless.group_filter f where f.group_id = clear_filter.group_id and f.topic_id = wanted;
  if not found then
    return false;
  end if;
  perform gapless.stamp_filter(clear_filter.group_id, wanted, gapless.unfiltered(wanted));
  insert into gapless.audit (action, group_id, topic_id) values ('unfilter', clear_filter.group_id, wanted);
  return true;
end
$$;
