-- Lock a unit's row if no other session has it; returns its state, or 'busy', or 'absent'. A unit of a queue group is
-- busy as long as a receipt of it is valid: the holder may be handling it.
create or replace function gapless.lock_letter(_group_id text, _topic_id int, _partition_id int, _first_offset bigint)
returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  found_state text;
  in_hand boolean;
begin
  select d.state, d.state = 'waiting' and d.token is not null and d.next_attempt_ts > clock_timestamp()
  into found_state, in_hand
  from gapless.dead_letter d
  where d.group_id = _group_id and d.topic_id = _topic_id
    and d.partition_id = _partition_id and d.first_offset = _first_offset
  for update skip locked;
  if found then
    return case when in_hand then 'busy' else found_state end;
  end if;
  perform from gapless.dead_letter d
  where d.group_id = _group_id and d.topic_id = _topic_id
    and d.partition_id = _partition_id and d.first_offset = _first_offset;
  return case when found then 'busy' else 'absent' end;
end
$$;
