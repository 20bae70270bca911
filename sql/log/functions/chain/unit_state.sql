-- Return the state of a unit of the log in a group:
--   'handled'  passed by a call or by its filter, and not set aside (a redriven one was handled since)
--   'skipped'  passed without a call (is_skipped())
--   'dead'     passed, and a dead letter, or discarded
--   'waiting'  passed, and waits to be tried again
--   'pending'  the group has not come to it yet
--   'removed'  there is no such group of this topic any more
-- next_offset: the group's offset; letter, reason, attempts: of its dead letter, if there is one (0005). By primary key
-- throughout.
create or replace function gapless.unit_state(
  _group_id text, _topic_id int, _partition_id int, _first_offset bigint, _last_offset bigint,
  out state text, out next_offset bigint, out letter text, out reason text, out attempts int
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
begin
  if not exists (
    select from gapless.consumer_group g
    where g.group_id = _group_id and g.topic_id = _topic_id
  ) then
    state := 'removed';
    return;
  end if;
  select c.next_offset into next_offset from gapless.consumer_offsets c
  where c.ctid = gapless.offset_row(_group_id, _topic_id, _partition_id);
  if gapless.is_past(_group_id, _topic_id, _partition_id, _first_offset, _last_offset, next_offset) then
    -- A unit is set aside as a whole (I5): its first event decides. A queue group sets events aside: the worst decides.
    select d.state, left(coalesce(d.discard_reason, d.reason), 200), d.attempts
    into letter, reason, attempts
    from gapless.dead_letter_event e
    join gapless.dead_letter d
      on d.group_id = e.group_id and d.topic_id = e.topic_id and d.partition_id = e.partition_id
      and d.first_offset = e.first_offset
    where e.group_id = _group_id and e.topic_id = _topic_id
      and e.partition_id = _partition_id and e.c_offset between _first_offset and _last_offset
    order by d.state = 'redriven', d.state in ('dead', 'discarded'), e.c_offset
    limit 1;
    state := case
      when letter in ('waiting', 'parked') then 'waiting'
      when letter in ('dead', 'discarded') then 'dead'
      when letter is null
        and gapless.is_skipped(_group_id, _topic_id, _partition_id, _first_offset, _last_offset)
        then 'skipped'
      else 'handled'
    end;
  else
    state := 'pending';
  end if;
end
$$;
