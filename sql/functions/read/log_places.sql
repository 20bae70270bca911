-- Places in a partition of the log: its ends, the beginning of a unit, a time.

-- The oldest offset of a partition that retention has not dropped.
create or replace function gapless.log_first(topic_id int, partition_id int)
returns bigint
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(
    (
      select l.first_offset from gapless.log_start l
      where l.topic_id = log_first.topic_id and l.partition_id = log_first.partition_id
    ), 1)
$$;

-- The oldest offset that is there, and the offset that the next event gets.
create or replace function gapless.log_ends(
  topic_id int, partition_id int, out first_offset bigint, out end_offset bigint
)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select
    gapless.log_first(log_ends.topic_id, log_ends.partition_id),
    coalesce(
      (
        select s.last_offset from gapless.log_segment s
        where s.topic_id = log_ends.topic_id and s.partition_id = log_ends.partition_id
        order by s.base_offset desc limit 1
      ), 0) + 1
$$;

-- The first offset of the unit that an offset belongs to (I5); of an offset that is not there, itself.
create or replace function gapless.unit_start(topic_id int, partition_id int, c_offset bigint)
returns bigint
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
  place record;
  before text;      -- the unit ends of what lies before, in its segment
begin
  for place in
    select s.base_offset, s.last_offset, s.unit_ends
    from gapless.log_segment s
    where s.topic_id = unit_start.topic_id and s.partition_id = unit_start.partition_id
      and s.base_offset <= unit_start.c_offset
    order by s.base_offset desc
  loop
    before := substring(
      place.unit_ends from 1 for (unit_start.c_offset - place.base_offset)::int
    )::text;
    if place.last_offset < unit_start.c_offset then
      -- Beyond the end, or the segment before: its last event ends a unit, or the unit began in it.
      if right(place.unit_ends::text, 1) = '1' then
        return least(unit_start.c_offset, place.last_offset + 1);
      end if;
      before := place.unit_ends::text;
    end if;
    if strpos(before, '1') > 0 then
      return place.base_offset + length(before) - strpos(reverse(before), '1') + 1;
    end if;
    unit_start.c_offset := place.base_offset;
  end loop;
  return unit_start.c_offset;
end
$$;

-- The first segment (its base_offset) that was sequenced at that time or later; null: none yet. No
-- event in a segment before it can be newer. Runs follow each other, so it is found by halving.
create or replace function gapless.segment_since(topic_id int, partition_id int, since timestamptz)
returns bigint
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
  low bigint;
  high bigint;      -- the answer is a base_offset from low to high
  probe record;
begin
  select s.base_offset, s.sequenced_ts into probe from gapless.log_segment s
  where s.topic_id = segment_since.topic_id and s.partition_id = segment_since.partition_id
  order by s.base_offset desc limit 1;
  if not found or probe.sequenced_ts < since then
    return null;
  end if;
  high := probe.base_offset;
  select s.base_offset into low from gapless.log_segment s
  where s.topic_id = segment_since.topic_id and s.partition_id = segment_since.partition_id
  order by s.base_offset limit 1;
  while low < high loop
    select s.base_offset, s.last_offset, s.sequenced_ts into probe from gapless.log_segment s
    where s.topic_id = segment_since.topic_id and s.partition_id = segment_since.partition_id
      and s.base_offset <= (low + high) / 2
    order by s.base_offset desc limit 1;
    if probe.sequenced_ts >= since then
      high := probe.base_offset;
    else
      low := probe.last_offset + 1;
    end if;
  end loop;
  return high;
end
$$;

-- The first offset whose event was published (created_ts) at that time or later, else the end.
create or replace function gapless.offset_since(topic_id int, partition_id int, since timestamptz)
returns bigint
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  from_base bigint := gapless.segment_since(topic_id, partition_id, since);
  segment record;
  place bigint;
begin
  for segment in
    select s.base_offset, s.message_ids from gapless.log_segment s
    where s.topic_id = offset_since.topic_id and s.partition_id = offset_since.partition_id
      and s.base_offset >= from_base
    order by s.base_offset
  loop
    select segment.base_offset + u.n - 1 into place
    from unnest(segment.message_ids) with ordinality as u (id, n)
    cross join lateral (
      select e.created_ts from gapless.outbox_message_t e where e.id = u.id offset 0
    ) o
    where o.created_ts >= offset_since.since
    order by u.n
    limit 1;
    if found then    -- maybe an event that was dropped, but for its chunk
      return greatest(place, gapless.log_first(offset_since.topic_id, offset_since.partition_id));
    end if;
  end loop;
  return (gapless.log_ends(offset_since.topic_id, offset_since.partition_id)).end_offset;
end
$$;
