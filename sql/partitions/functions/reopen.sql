-- Give a retired partition a lease again, because it has something to handle.
-- locks: the consumer_group row first, so that sync() does not retire it right now
create or replace function gapless.reopen(_group_id text, _topic_id int, _partition_id int) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform from gapless.topic t
  where t.topic_id = _topic_id and _partition_id >= t.partitions;
  if not found then
    return;
  end if;
  perform from gapless.consumer_group g
  where g.group_id = _group_id and g.topic_id = _topic_id
  for no key update;
  perform from gapless.lease l
  where l.group_id = _group_id and l.topic_id = _topic_id and l.partition_id = _partition_id;
  if not found then
    insert into gapless.lease (group_id, topic_id, partition_id, epoch)
    select c.group_id, c.topic_id, c.partition_id, c.epoch from gapless.consumer_offsets c
    where c.group_id = _group_id and c.topic_id = _topic_id and c.partition_id = _partition_id
    on conflict do nothing;
    perform gapless.enter_queue(_group_id, _topic_id, g.block) from gapless.consumer_group g
    where g.group_id = _group_id and g.topic_id = _topic_id and g.mode = 'queue';
    update gapless.consumer_group g set planned_for = '{}'
    where g.group_id = _group_id and g.topic_id = _topic_id;
  end if;
end
$$;
