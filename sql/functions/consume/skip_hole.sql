-- Let a group pass a hole in a partition, and nothing else: what is missing where the group is, and the
-- rest of the units that it tore, for a unit is handled as a whole or not at all (I5).
--   missing  offsets of which the segment or the event is not there; passed: all that are passed by
-- c_offset: an offset of the hole, as the error of the lease says it, or any of the units it tore; GL409
-- when there is no hole where the group is, or it is elsewhere. gapless.audit keeps what was passed.
-- A worker may own the partition: it stands before the hole, and finds the offset moved.
-- locks: the topic, so that retention drops nothing meanwhile; the group's row
create or replace function gapless.skip_hole(
  group_id text, topic text, partition_id int, c_offset bigint,
  out first_offset bigint, out last_offset bigint, out missing bigint, out passed bigint
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  of_topic int := gapless.topic_id(topic);
  fence gapless.consumer_offsets;
  unit record;
begin
  perform gapless.hold_start(array[of_topic]);
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
  insert into gapless.audit (action, group_id, topic_id, partition_id, detail)
  values (
    'skip', skip_hole.group_id, of_topic, skip_hole.partition_id,
    jsonb_build_object('from', first_offset, 'to', last_offset + 1, 'missing', missing)
  );
  perform pg_notify('gapless_p_' || of_topic || '_' || skip_hole.partition_id, '');
end
$$;

-- The unit that begins at an offset, and how many of its offsets have no segment, or no event. Where
-- segments are missing it is what is left before them, and they; no row: the log ends here.
create or replace function gapless.torn_unit(
  topic_id int, partition_id int, begin_offset bigint, out last_offset bigint, out missing bigint
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
  segment record;
  ends int;
  expected bigint := begin_offset;
  ids bigint[] := '{}';
begin
  for segment in
    select s.base_offset, s.message_ids, s.unit_ends
    from gapless.segments_from(topic_id, partition_id, begin_offset, null) s
  loop
    if segment.base_offset > expected then
      last_offset := segment.base_offset - 1;
      missing := segment.base_offset - expected;
      return;
    end if;
    -- From the unit's place in the segment up to its end, or all of it.
    ends := position(b'1' in substring(segment.unit_ends from (expected - segment.base_offset)::int + 1));
    ids := ids || segment.message_ids[
      expected - segment.base_offset + 1
      : case when ends > 0 then expected - segment.base_offset + ends else cardinality(segment.message_ids) end
    ];
    if ends > 0 then
      last_offset := expected + ends - 1;
      select count(*) filter (where o.id is null) into missing
      from unnest(ids) as w (id)
      left join lateral (
        select e.id from gapless.outbox_message_t e where e.id = w.id offset 0
      ) o on true;
      return;
    end if;
    expected := segment.base_offset + cardinality(segment.message_ids);
  end loop;
end
$$;
