-- Return the offsets rows of a group: of one topic (null: all), of one partition (null: all).
-- A partition whose row is gone (consume/views/unplaced_groups.sql) is included, at the oldest offset, as if it had a
-- row there: seek() inserts it (restore_offsets).
-- Raises GL404 for an unknown group, topic or partition, GL400 for a partition without a topic.
create or replace function gapless.group_partitions(
  _group_id text, _topic text default null, _partition_id int default null
) returns setof gapless.consumer_offsets
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  topics text[];
begin
  select array_agg(t.name order by t.name) into topics
  from gapless.consumer_group g
  join gapless.topic t using (topic_id)
  where g.group_id = _group_id;
  if topics is null then
    raise exception 'there is no group "%": gapless groups lists them', _group_id
      using errcode = 'GL404';
  end if;
  if _topic <> all (topics) then
    raise exception 'group "%" does not consume topic "%", but %',
      _group_id, _topic, array_to_string(topics, ', ')
      using errcode = 'GL404';
  end if;
  if _partition_id is not null and _topic is null
    and cardinality(topics) > 1
  then
    raise exception 'group "%" consumes several topics: say of which partition % is (--topic): %',
      _group_id, _partition_id, array_to_string(topics, ', ')
      using errcode = 'GL400';
  end if;
  return query
  select c.*
  from (
    select o.*
    from gapless.all_offsets a
    join gapless.consumer_offsets o on o.ctid = gapless.offset_row(a.group_id, a.topic_id, a.partition_id)
    where a.group_id = _group_id
    union all
    select (
      jsonb_populate_record(
        null::gapless.consumer_offsets,
        jsonb_build_object(
          'group_id', l.group_id, 'topic_id', l.topic_id, 'partition_id', l.partition_id,
          'next_offset', gapless.log_first(l.topic_id, l.partition_id), 'epoch', l.epoch,
          'attempts', 0, 'layout', 0, 'passed', 0
        )
      )
    ).*
    from gapless.lease l
    where l.group_id = _group_id and not exists (
      select from gapless.consumer_offsets o where o.ctid = gapless.offset_row(l.group_id, l.topic_id, l.partition_id)
    )
  ) c
  join gapless.topic t using (topic_id)
  where (_topic is null or t.name = _topic)
    and (_partition_id is null or c.partition_id = _partition_id)
  order by t.name, c.partition_id;
  if not found and _partition_id is null then
    raise exception 'group "%" has no partition of topic "%"',
      _group_id, coalesce(_topic, topics[1])
      using errcode = 'GL404';
  end if;
  if not found then
    raise exception 'group "%" has no partition % of topic "%": gapless groups show % lists them',
      _group_id, _partition_id,
      coalesce(_topic, topics[1]), _group_id
      using errcode = 'GL404';
  end if;
end
$$;
