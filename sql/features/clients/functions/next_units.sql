-- Return the events that a client which owns a partition would claim next, in whole units (I5) and offset order, or why
-- there are none. Nothing is written: the claim, which also looks at barriers and holes, is rolled back.
--   outcome  as claim_at(); 'hole' only when no whole unit stands before it
-- units: the unit of each event, by its first offset. timelines: of the segment of each.
create or replace function gapless.next_units(
  _group_id text, _topic_id int, _partition_id int, _epoch bigint, _token uuid, _max_events int,
  out outcome text, out first_offset bigint, out last_offset bigint, out message_ids bigint[], out units bigint[],
  out timelines int[]
)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set jit = off set plan_cache_mode = auto as $$
declare
  piece record;
  marks text := '';
  low int;
  high int;
  whole int;
  lowest bigint;      -- of ids
  highest bigint;
begin
  message_ids := '{}';
  units := '{}';
  timelines := '{}';
  begin
    for piece in
      select a.* from gapless.claim_at(
        _group_id, _topic_id, _partition_id, _epoch, _token, _max_events, 0, null
      ) a
    loop
      outcome := piece.outcome;
      first_offset := piece.first_offset;
      last_offset := piece.last_offset;
      exit when outcome <> 'claimed'
        or piece.base_offset > first_offset + cardinality(message_ids) and message_ids <> '{}';
      low := first_offset + cardinality(message_ids) - piece.base_offset + 1;
      high := least(last_offset - piece.base_offset + 1, cardinality(piece.message_ids));
      message_ids := message_ids || piece.message_ids[low : high];
      marks := marks || substring(piece.unit_ends from low for high - low + 1);
      timelines := timelines || array_fill(coalesce(piece.timeline, 1), array[high - low + 1]);
    end loop;
    if outcome = 'claimed' then
      raise exception using errcode = 'GL000';    -- undone: the units are not handled yet
    end if;
  exception
    when sqlstate 'GL000' then
      null;
  end;
  if outcome <> 'claimed' then
    return;
  end if;
  -- As claim_events().
  select min(i), max(i), set_config('plan_cache_mode', 'force_custom_plan', true) into lowest, highest
  from unnest(message_ids) i;
  -- Up to the first missing segment or event.
  select coalesce(min(u.n) - 1, cardinality(message_ids)) into whole
  from unnest(message_ids) with ordinality as u (id, n)
  left join lateral (
    select o.id from gapless.outbox_message_t o where o.id = u.id and o.id between lowest and highest offset 0
  ) e on true
  where e.id is null;
  whole := length(regexp_replace(left(marks, whole), '0+$', ''));
  if whole = 0 then
    outcome := 'hole';
    select t.last_offset into last_offset
    from gapless.torn_unit(_topic_id, _partition_id, first_offset) t;
    return;
  end if;
  last_offset := first_offset + whole - 1;
  message_ids := message_ids[1 : whole];
  timelines := timelines[1 : whole];
  units := array(
    select first_offset + coalesce(max(n) filter (where substring(marks from n for 1) = '1') over (
      order by n rows between unbounded preceding and 1 preceding
    ), 0)
    from generate_series(1, whole) n
    order by n
  );
end
$$;
