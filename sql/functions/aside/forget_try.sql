-- Take back record_try(): the call ended, but neither well nor badly (the environment's error).
create or replace function gapless.forget_try(
  group_id text, topic_id int, partition_id int, epoch bigint, token uuid, first_offset bigint
)
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
  update gapless.dead_letter d set crashes = d.crashes - 1
  where gapless.lock_fence(
      forget_try.group_id, forget_try.topic_id, forget_try.partition_id, forget_try.epoch,
      forget_try.token
    )
    and d.group_id = forget_try.group_id and d.topic_id = forget_try.topic_id
    and d.partition_id = forget_try.partition_id and d.first_offset = forget_try.first_offset
    and coalesce(d.state, '') = 'waiting' and d.crashes > 0
$$;
