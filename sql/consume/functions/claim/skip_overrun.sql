-- Move a group that was overrun to the present beginning of the partition, or to its end (to_end 'latest'), by the
-- right of its owner. Returns the number of lost offsets, null when the caller is no longer the owner, 0 when nothing
-- was to be done. gapless.audit keeps the range: no dead letter has these events (I9).
create or replace function gapless.skip_overrun(
  _group_id text, _topic_id int, _partition_id int, _epoch bigint, _token uuid, _to_end text
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  fence gapless.consumer_offsets;
  ends record;
  goal bigint;
begin
  perform gapless.hold_start(array[_topic_id]);
  select * into fence from gapless.consumer_offsets c
  where c.group_id = _group_id and c.topic_id = _topic_id and c.partition_id = _partition_id
    and c.epoch = _epoch and c.token = _token
  for update;
  if not found then
    return null;
  end if;
  select * into ends from gapless.log_ends(_topic_id, _partition_id);
  if fence.next_offset >= ends.first_offset then
    return 0;
  end if;
  goal := case _to_end when 'latest' then ends.end_offset else ends.first_offset end;
  perform set_config('gapless.seeking', pg_current_xact_id()::text, true);
  update gapless.consumer_offsets c
  set next_offset = goal, attempt_offset = null, attempts = 0
  where c.group_id = _group_id and c.topic_id = _topic_id and c.partition_id = _partition_id;
  insert into gapless.audit (action, group_id, topic_id, partition_id, detail)
  values (
    'overrun', _group_id, _topic_id, _partition_id,
    jsonb_build_object('from', fence.next_offset, 'to', goal)
  );
  return goal - fence.next_offset;
end
$$;
