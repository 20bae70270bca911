-- The offsets rows of a group: of one topic (null: all), of one partition (null: all).
-- Raises GL404 for what is not there, GL400 for a partition of no topic in particular.
create or replace function gapless.group_partitions(
  group_id text, topic text default null, partition_id int default null
)
returns setof gapless.consumer_offsets
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  topics text[];
begin
  select array_agg(t.name order by t.name) into topics
  from gapless.consumer_group g
  join gapless.topic t using (topic_id)
  where g.group_id = group_partitions.group_id;
  if topics is null then
    raise exception 'there is no group "%": gapless groups lists them', group_partitions.group_id
      using errcode = 'GL404';
  end if;
  if group_partitions.topic <> all (topics) then
    raise exception 'group "%" does not consume topic "%", but %',
      group_partitions.group_id, group_partitions.topic, array_to_string(topics, ', ')
      using errcode = 'GL404';
  end if;
  if group_partitions.partition_id is not null and group_partitions.topic is null
    and cardinality(topics) > 1
  then
    raise exception 'group "%" consumes several topics: say of which partition % is (--topic): %',
      group_partitions.group_id, group_partitions.partition_id, array_to_string(topics, ', ')
      using errcode = 'GL400';
  end if;
  return query
  select c.* from gapless.consumer_offsets c
  join gapless.topic t using (topic_id)
  where c.group_id = group_partitions.group_id
    and (group_partitions.topic is null or t.name = group_partitions.topic)
    and (group_partitions.partition_id is null or c.partition_id = group_partitions.partition_id)
  order by t.name, c.partition_id;
  if not found then
    raise exception 'group "%" has no partition % of topic "%": gapless groups show % lists them',
      group_partitions.group_id, group_partitions.partition_id,
      coalesce(group_partitions.topic, topics[1]), group_partitions.group_id
      using errcode = 'GL404';
  end if;
end
$$;
