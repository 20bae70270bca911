-- Return the first segment (its base_offset) that was sequenced at that time or later; null: none yet. No event in a
-- segment before it can be newer. Runs follow each other, so a binary search finds it.
create or replace function gapless.segment_since(_topic_id int, _partition_id int, _since timestamptz) returns bigint
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  low bigint;
  high bigint;      -- the answer is a base_offset from low to high
  probe record;
begin
  select s.base_offset, s.sequenced_ts into probe from gapless.log_segment s
  where s.topic_id = _topic_id and s.partition_id = _partition_id
  order by s.base_offset desc limit 1;
  if not found or probe.sequenced_ts < _since then
    return null;
  end if;
  high := probe.base_offset;
  select s.base_offset into low from gapless.log_segment s
  where s.topic_id = _topic_id and s.partition_id = _partition_id
  order by s.base_offset limit 1;
  while low < high loop
    select s.base_offset, s.last_offset, s.sequenced_ts into probe from gapless.log_segment s
    where s.topic_id = _topic_id and s.partition_id = _partition_id
      and s.base_offset <= (low + high) / 2
    order by s.base_offset desc limit 1;
    if probe.sequenced_ts >= _since then
      high := probe.base_offset;
    else
      low := probe.last_offset + 1;
    end if;
  end loop;
  return high;
end
$$;
