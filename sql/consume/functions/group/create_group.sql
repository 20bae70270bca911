-- Create a group for a topic, with an offset and a lease row for every partition. It may be called again.
-- start: 'earliest' (first offset), 'latest' (events that are published from now on) or 'latest-per-key' (the newest
-- event of each key of a compacted topic, then the log; group_starts.sql). It counts only when the group is new
-- for the topic. Returns the group's number (its NOTIFY channel is gapless_g_<number>).
-- mode: 'ordered', or 'queue' (functions/queue/), which allows any number of workers for a partition. The mode is fixed
-- once the group has handled an event.
-- block: the largest number of events of a queue that one transaction has in hand (null: keep the present number; 100
-- for a new group). It can change only while no worker has a block.
-- max_crashes: the number of times that take() delivers an event.
-- Raises GL400 for a value that is out of range, GL409 when the group has the other mode, or the topic is not
-- compacted.
create or replace function gapless.create_group(
  group_id text, topic text, start text default 'earliest', mode text default 'ordered', block int default null,
  max_crashes int default null
) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  wanted int := gapless.topic_id(topic);
  here gapless.consumer_group;
begin
  if (create_group.group_id ~ '^[A-Za-z0-9._-]{1,249}$') is not true then
    raise exception '"%" is not a group name: use 1 to 249 letters, digits, dots, dashes and underscores',
      left(create_group.group_id, 100)
      using errcode = 'GL400';
  end if;
  if create_group.start not in ('earliest', 'latest', 'latest-per-key') then
    raise exception 'a group starts at earliest, latest or latest-per-key, not at %', create_group.start
      using errcode = 'GL400';
  end if;
  if create_group.start = 'latest-per-key' and create_group.mode = 'queue' then
    raise exception 'group "%" is a queue, and starts at earliest or latest: %',
      create_group.group_id, 'only an ordered group begins with the latest of each key'
      using errcode = 'GL400';
  end if;
  perform gapless.check_mode(
    create_group.group_id, wanted, create_group.mode, create_group.block, create_group.max_crashes
  );
  select g.* into here from gapless.consumer_group g
  where g.group_id = create_group.group_id and g.topic_id = wanted;
  if here.mode = create_group.mode and not exists (
    select from gapless.topic t
    cross join lateral generate_series(0, t.partitions - 1) p
    where t.topic_id = wanted and not exists (
      select from gapless.lease l
      where l.group_id = create_group.group_id and l.topic_id = wanted and l.partition_id = p
    )
  ) then
    if here.mode = 'queue' then
      perform gapless.set_queue(here, create_group.block, create_group.max_crashes);
    end if;
    return here.group_no;
  end if;

  -- The number of partitions MUST not change between here and the end: rows would be missing.
  perform from gapless.topic t where t.topic_id = wanted for share;
  if create_group.start = 'latest-per-key' and here.group_id is null
    and not (select t.compacted from gapless.topic t where t.topic_id = wanted)
  then
    raise exception 'topic "%" is not compacted: gapless topics alter % --compact', topic, topic
      using errcode = 'GL409';
  end if;
  insert into gapless.consumer_group (group_id, topic_id, mode, block, max_crashes)
  values (
    create_group.group_id, wanted, create_group.mode,
    case when create_group.mode = 'queue' then coalesce(create_group.block, 100) end,
    coalesce(create_group.max_crashes, 3)
  )
  on conflict do nothing;
  perform gapless.add_partitions(create_group.group_id, wanted, create_group.start);

  select g.* into strict here from gapless.consumer_group g
  where g.group_id = create_group.group_id and g.topic_id = wanted;
  if here.mode <> create_group.mode then
    perform gapless.change_mode(here, create_group.mode, coalesce(create_group.block, 100));
  end if;
  return here.group_no;
end
$$;
