-- Undo record_try(): the call ended, but neither well nor badly (an error of the environment).
create or replace function gapless.forget_try(
  _group_id text, _topic_id int, _partition_id int, _epoch bigint, _token uuid, _first_offset bigint
) returns void
language sql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
  update gapless.dead_letter d set crashes = d.crashes - 1
  where gapless.lock_fence(_group_id, _topic_id, _partition_id, _epoch, _token)
    and d.group_id = _group_id and d.topic_id = _topic_id
    and d.partition_id = _partition_id and d.first_offset = _first_offset
    and coalesce(d.state, '') = 'waiting' and d.crashes > 0
$$;
