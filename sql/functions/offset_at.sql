-- The offset from which on a partition's events were published at `moment` or later; one past the end
-- when none was. Found by halving: of transactions that were open at that moment, events may lie on
-- either side, since created_ts is when an event was inserted, and offsets follow the commits.
create or replace function gapless.offset_at(topic_id int, partition_id int, moment timestamptz)
returns bigint
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  low bigint;
  high bigint;     -- one past the end, or known to be at `moment` or later
  middle bigint;
  inserted timestamptz;
begin
  select min(b.base_offset), max(b.last_offset) + 1 into low, high
  from (
    (
      select s.base_offset, s.last_offset from gapless.log_segment s
      where s.topic_id = offset_at.topic_id and s.partition_id = offset_at.partition_id
      order by s.base_offset limit 1
    )
    union all
    (
      select s.base_offset, s.last_offset from gapless.log_segment s
      where s.topic_id = offset_at.topic_id and s.partition_id = offset_at.partition_id
      order by s.base_offset desc limit 1
    )
  ) b;
  if low is null then
    return 1;
  end if;
  while low < high loop
    middle := (low + high) / 2;
    select (
      select o.created_ts from gapless.outbox_message_t o
      where o.id = s.message_ids[middle - s.base_offset + 1]
    ) into inserted
    from gapless.log_segment s
    where s.topic_id = offset_at.topic_id and s.partition_id = offset_at.partition_id
      and s.base_offset <= middle
    order by s.base_offset desc limit 1;
    if inserted < offset_at.moment then
      low := middle + 1;
    else
      high := middle;
    end if;
  end loop;
  return low;
end
$$;
