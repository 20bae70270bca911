-- Move a partition's offset, and remove the dead letters from there on; its row is locked.
create or replace function gapless.move_offset(
  _group_id text, _topic text, _partition_id int, _old_offset bigint, _new_offset bigint
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  of_topic int := gapless.topic_id(_topic);
  removed jsonb;
begin
  if _old_offset = _new_offset and not exists (    -- a stopped partition is to continue there
    select from gapless.consumer_offsets c
    where c.group_id = _group_id and c.topic_id = of_topic
      and c.partition_id = _partition_id and (c.stopped_at is not null or c.next_offset < c.latest_upto)
  ) and not gapless.has_ranges(_group_id, of_topic, _partition_id) then
    return;
  end if;
  perform set_config('gapless.seeking', pg_current_xact_id()::text, true);
  update gapless.consumer_offsets c
  -- layout, passed: admissions after a change of the number of partitions are checked again.
  set next_offset = _new_offset, token = null, installed_offset = null,
    attempt_offset = null, attempts = 0, layout = 0, passed = 0, stopped_at = null,
    latest_upto = null, start_offset = least(start_offset, _new_offset)
  where c.group_id = _group_id and c.topic_id = of_topic
    and c.partition_id = _partition_id;
  update gapless.subscription_stop p set from_offset = _new_offset    -- stopped events wait again
  from gapless.subscription s
  where s.group_id = _group_id and s.topic_id = of_topic and s.subscription_id = p.subscription_id
    and p.partition_id = _partition_id and p.from_offset > _new_offset;
  perform gapless.move_floor(_group_id, of_topic, _partition_id, _new_offset);
  -- First of all: so no other session discards one at the same time.
  perform gapless.lock_keys(_group_id, of_topic, _partition_id);
  removed := gapless.sum_letters(_group_id, of_topic, _partition_id, _new_offset);
  perform gapless.forget_letters(_group_id, of_topic, _partition_id, _new_offset);
  insert into gapless.audit (action, group_id, topic_id, partition_id, detail)
  values (
    'seek', _group_id, of_topic, _partition_id,
    jsonb_build_object('from', _old_offset, 'to', _new_offset, 'letters', removed)
  );
end
$$;
