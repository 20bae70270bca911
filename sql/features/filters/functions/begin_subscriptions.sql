-- Let a group take only the events that its subscriptions match. Raises GL400 for a queue group, GL404 for an unknown
-- one, GL409 for one that reads latest. A part of subscribe().
-- locks: as set_filter()
create or replace function gapless.begin_subscriptions(_group_id text, _topic text, _topic_id int) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  here gapless.consumer_group;
  number int;
begin
  select g.* into here from gapless.consumer_group g
  where g.group_id = _group_id and g.topic_id = _topic_id
  for no key update;
  if not found then
    perform gapless.group_partitions(_group_id, _topic);
    raise exception 'group "%" does not consume topic "%"', _group_id, _topic using errcode = 'GL404';
  end if;
  if here.mode = 'queue' then
    raise exception 'group "%" is a queue, and only an ordered group has subscriptions', _group_id
      using errcode = 'GL400';
  end if;
  if exists (
    select from gapless.consumer_offsets c
    where c.group_id = _group_id and c.topic_id = _topic_id and c.next_offset < c.latest_upto
  ) then
    raise exception 'group "%" still reads the latest event of each key: %',
      _group_id, 'it takes subscriptions when it has come to the log'
      using errcode = 'GL409';
  end if;
  if gapless.lock_subscriptions(_group_id, _topic, _topic_id) then    -- another session was faster
    return;
  end if;
  insert into gapless.group_filter (group_id, topic_id, subscribed) values (_group_id, _topic_id, true)
  returning filter_no into number;
  perform gapless.stamp_filter(_group_id, _topic_id, number);
end
$$;
