-- Let a group pass a hole in a partition, and nothing else: the missing events where the group is, and the rest of the
-- units that the hole tore, because a unit is handled as a whole or not at all (I5).
--   missing  offsets whose segment or event is gone; passed: all offsets that the group passes
-- c_offset: an offset of the hole, as the error of the lease names it, or any offset of the torn units. Raises GL409
-- when the group is at no hole, or the hole is elsewhere. gapless.audit keeps the passed offsets. A worker may own the
-- partition: it has stopped before the hole, and finds the offset moved.
-- A queue group passes the missing events around c_offset, also those that retention dropped, wherever its floor is.
-- Each of its events is a unit; finished events, and events in hand, stay so (skip_missing()).
-- locks: the topic, so that retention drops nothing meanwhile; the group's row; of a queue as skip_missing()
create or replace function gapless.skip_hole(
  group_id text, topic text, partition_id int, c_offset bigint,
  out first_offset bigint, out last_offset bigint, out missing bigint, out passed bigint
)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  of_topic int := gapless.topic_id(topic);
  fence gapless.consumer_offsets;
  unit record;
begin
  perform gapless.hold_start(array[of_topic]);
  if exists (
    select from gapless.lease l
    join gapless.consumer_group g using (group_id, topic_id)
    where l.group_id = skip_hole.group_id and l.topic_id = of_topic
      and l.partition_id = skip_hole.partition_id and g.mode = 'queue'
  ) then
    select s.* into first_offset, last_offset, missing, passed
    from gapless.skip_missing(skip_hole.group_id, topic, of_topic, skip_hole.partition_id, c_offset) s;
    perform gapless.tell_skip(skip_hole.group_id, of_topic, skip_hole.partition_id, first_offset, last_offset, missing);
    return;
  end if;
  select * into fence from gapless.consumer_offsets c
  where c.group_id = skip_hole.group_id and c.topic_id = of_topic
    and c.partition_id = skip_hole.partition_id
  for update;
  if not found then
    raise exception 'group "%" has no offset in %/%: gapless groups show % lists them',
      skip_hole.group_id, topic, partition_id, skip_hole.group_id
      using errcode = 'GL404';
  end if;
  first_offset := fence.next_offset;
  last_offset := fence.next_offset - 1;
  missing := 0;
  loop
    select * into unit from gapless.torn_unit(of_topic, skip_hole.partition_id, last_offset + 1);
    exit when unit.missing is null or unit.missing = 0;
    last_offset := unit.last_offset;
    missing := missing + unit.missing;
  end loop;
  passed := last_offset - first_offset + 1;
  if passed = 0 then
    raise exception 'group "%" is at offset % of %/%, where nothing is missing: there is no hole to skip',
      skip_hole.group_id, first_offset, topic, partition_id
      using errcode = 'GL409';
  end if;
  if c_offset not between first_offset and last_offset then
    raise exception 'offset % is not in the hole before which group "%" stands: that is %/%/%@%, to %',
      c_offset, skip_hole.group_id, skip_hole.group_id, topic, partition_id, first_offset, last_offset
      using errcode = 'GL409';
  end if;
  perform set_config('gapless.seeking', pg_current_xact_id()::text, true);
  update gapless.consumer_offsets c
  set next_offset = last_offset + 1, attempt_offset = null, attempts = 0
  where c.group_id = skip_hole.group_id and c.topic_id = of_topic
    and c.partition_id = skip_hole.partition_id;
  perform gapless.tell_skip(skip_hole.group_id, of_topic, skip_hole.partition_id, first_offset, last_offset, missing);
end
$$;
