-- Return the unit that begins at an offset, and the number of its offsets without a segment, or an event. Where
-- segments are missing, it is the part before them, and the missing offsets; no row: the log ends here.
create or replace function gapless.torn_unit(
  _topic_id int, _partition_id int, _begin_offset bigint, out last_offset bigint, out missing bigint
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  segment record;
  ends int;
  expected bigint := _begin_offset;
  ids bigint[] := '{}';
begin
  for segment in
    select s.base_offset, s.message_ids, s.unit_ends
    from gapless.segments_from(_topic_id, _partition_id, _begin_offset, null) s
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
