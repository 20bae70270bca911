-- Take a partition of a replay: this session holds its advisory lock (7427003, lease_no). A former holder cannot commit
-- any more (I7). Returns the new epoch, and whether the former holder died at work.
create or replace function gapless.take_replay(
  _group_id text, _topic_id int, _partition_id int, _token uuid, out epoch bigint, out unclean boolean
)
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update gapless.consumer_offsets c
  set epoch = c.epoch + 1, token = _token, installed_offset = c.next_offset
  from (
    select o.installed_offset is not null as unclean
    from gapless.consumer_offsets o
    join gapless.consumer_group g using (group_id, topic_id)
    where o.group_id = _group_id and o.topic_id = _topic_id
      and o.partition_id = _partition_id and g.is_scratch
    for update of o
  ) o
  where c.group_id = _group_id and c.topic_id = _topic_id and c.partition_id = _partition_id
  returning c.epoch, o.unclean
$$;
