-- Move a group's offset from first_offset to next_offset for its owner (I6, I7). Returns the row's new place; null,
-- without a write, unless the fence and the offset are as the caller expects.
-- By its place first: while an old snapshot is held, a look-up by key walks all versions of the row since then,
-- thousands of them. A place is only a hint: the row there is compared by key.
-- layout: null leaves it as it is. filter: the filter with which the events were read (group_filter).
create or replace function gapless.advance_offset(
  _group_id text, _topic_id int, _partition_id int, _epoch bigint, _token uuid,
  _first_offset bigint, _next_offset bigint, _layout int, _place tid, _filter int default 0
) returns tid
language plpgsql as $$
declare
  moved tid;
begin
  perform set_config('gapless.chain', 'open', true);    -- see tell_cause()
  for tries in 1..2 loop
    update gapless.consumer_offsets c
    set next_offset = _next_offset, layout = coalesce(_layout, c.layout)
    where c.ctid = _place and c.group_id = _group_id and c.topic_id = _topic_id
      and c.partition_id = _partition_id and c.epoch = _epoch and c.token = _token
      and c.next_offset = _first_offset and c.filter_no = _filter
    returning c.ctid into moved;
    exit when found or tries = 2;
    _place := gapless.lock_offset(_group_id, _topic_id, _partition_id, _epoch, _token);
  end loop;
  return moved;
end
$$;
