-- Lock a unit's row if nobody else has it; its state, or 'busy', or 'absent'.
create or replace function gapless.lock_letter(
  _group_id text, _topic_id int, _partition_id int, _first_offset bigint
)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  found_state text;
begin
  select d.state into found_state from gapless.dead_letter d
  where d.group_id = _group_id and d.topic_id = _topic_id
    and d.partition_id = _partition_id and d.first_offset = _first_offset
  for update skip locked;
  if found then
    return found_state;
  end if;
  perform from gapless.dead_letter d
  where d.group_id = _group_id and d.topic_id = _topic_id
    and d.partition_id = _partition_id and d.first_offset = _first_offset;
  return case when found then 'busy' else 'absent' end;
end
$$;
