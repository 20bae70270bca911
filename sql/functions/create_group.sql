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
    where t.topic_id = wanted and t.partitions > (
      select count(*) from gapless.lease l
      where l.group_id = create_group.group_id and l.topic_id = wanted
    )
  ) then
    return number;
  end if;

  insert into gapless.consumer_group (group_id, topic_id)
  values (create_group.group_id, wanted)
  on conflict do nothing;

  insert into gapless.consumer_offsets (group_id, topic_id, partition_id, next_offset)
  select create_group.group_id, wanted, p,
    case create_group.start
      when 'latest' then coalesce(
        (
          select s.last_offset from gapless.log_segment s
          where s.topic_id = wanted and s.partition_id = p
          order by s.base_offset desc limit 1
        ), 0) + 1
      else coalesce(
        (
          select s.base_offset from gapless.log_segment s
          where s.topic_id = wanted and s.partition_id = p
          order by s.base_offset limit 1
        ), 1)
    end
  from gapless.topic t, generate_series(0, t.partitions - 1) p
  where t.topic_id = wanted
  on conflict do nothing;

  insert into gapless.lease (group_id, topic_id, partition_id)
  select create_group.group_id, wanted, p
  from gapless.topic t, generate_series(0, t.partitions - 1) p
  where t.topic_id = wanted
  on conflict do nothing;

  select g.group_no into strict number from gapless.consumer_group g
  where g.group_id = create_group.group_id and g.topic_id = wanted;
  return number;
end
$$;
