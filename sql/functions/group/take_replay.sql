-- Take a partition of a replay: this session holds its advisory lock (7427003, lease_no). A former
-- holder cannot commit any more (I7). Returns the new epoch, and whether the former one died at work.
create or replace function gapless.take_replay(
  group_id text, topic_id int, partition_id int, token uuid, out epoch bigint, out unclean boolean
)
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  update gapless.consumer_offsets c
  set epoch = c.epoch + 1, token = take_replay.token, installed_offset = c.next_offset
  from (
    select o.installed_offset is not null as unclean
    from gapless.consumer_offsets o
    join gapless.consumer_group g using (group_id, topic_id)
    where o.group_id = take_replay.group_id and o.topic_id = take_replay.topic_id
      and o.partition_id = take_replay.partition_id and g.is_scratch
    for update of o
  ) o
  where c.group_id = take_replay.group_id and c.topic_id = take_replay.topic_id
    and c.partition_id = take_replay.partition_id
  returning c.epoch, o.unclean
$$;
