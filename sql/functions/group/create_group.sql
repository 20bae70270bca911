-- Make a group known for a topic, with an offset and a lease row for every partition. Repeat freely.
-- start: 'earliest' (first offset) or 'latest' (what is published from now on); it counts only when
-- the group is new for the topic. Returns the group's number (its NOTIFY channel: gapless_g_<number>).
create or replace function gapless.create_group(
  group_id text, topic text, start text default 'earliest'
)
returns int
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  wanted int := gapless.topic_id(topic);
  number int;
begin
  if create_group.start not in ('earliest', 'latest') then
    raise exception 'a group starts at earliest or latest, not at %', create_group.start
      using errcode = 'GL400';
  end if;
  select g.group_no into number from gapless.consumer_group g
  where g.group_id = create_group.group_id and g.topic_id = wanted;
  if found and not exists (
    select from gapless.topic t
    cross join lateral generate_series(0, t.partitions - 1) p
    where t.topic_id = wanted and not exists (
      select from gapless.lease l
      where l.group_id = create_group.group_id and l.topic_id = wanted and l.partition_id = p
    )
  ) then
    return number;
  end if;

  -- The number of partitions MUST not change between here and the end: rows would be missing.
  perform from gapless.topic t where t.topic_id = wanted for share;
  insert into gapless.consumer_group (group_id, topic_id)
  values (create_group.group_id, wanted)
  on conflict do nothing;

  perform gapless.add_partitions(create_group.group_id, wanted, create_group.start);

  select g.group_no into strict number from gapless.consumer_group g
  where g.group_id = create_group.group_id and g.topic_id = wanted;
  return number;
end
$$;
