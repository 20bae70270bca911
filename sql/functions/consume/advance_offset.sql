-- Move a group's offset from first_offset to next_offset for its owner (I6, I7). Returns where the
-- row is now; null, and nothing was written, unless the fence and the offset are as the caller says.
-- By its place first: while an old snapshot is held, a look-up by key walks all versions of the row
-- that were since, thousands of them. A place is a hint only: the row there is compared by key.
-- layout: null leaves it as it is.
create or replace function gapless.advance_offset(
  group_id text, topic_id int, partition_id int, epoch bigint, token uuid,
  first_offset bigint, next_offset bigint, layout int, place tid
)
returns tid
language plpgsql
as $$
#variable_conflict use_column
declare
  moved tid;
begin
  perform set_config('gapless.chain', 'open', true);    -- see tell_cause()
  update gapless.consumer_offsets c
  set next_offset = advance_offset.next_offset, layout = coalesce(advance_offset.layout, c.layout)
  where c.ctid = advance_offset.place
    and c.group_id = advance_offset.group_id and c.topic_id = advance_offset.topic_id
    and c.partition_id = advance_offset.partition_id
    and c.epoch = advance_offset.epoch and c.token = advance_offset.token
    and c.next_offset = advance_offset.first_offset
  returning c.ctid into moved;
  if found then
    return moved;
  end if;
  update gapless.consumer_offsets c
  set next_offset = advance_offset.next_offset, layout = coalesce(advance_offset.layout, c.layout)
  where c.group_id = advance_offset.group_id and c.topic_id = advance_offset.topic_id
    and c.partition_id = advance_offset.partition_id
    and c.epoch = advance_offset.epoch and c.token = advance_offset.token
    and c.next_offset = advance_offset.first_offset
  returning c.ctid into moved;
  return moved;
end
$$;
