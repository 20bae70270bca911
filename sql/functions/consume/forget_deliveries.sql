-- Take back what note_deliveries() began and nothing ended: it was not the fault of those calls.
create or replace function gapless.forget_deliveries(
  group_id text, topic_id int, partition_id int, epoch bigint, token uuid
)
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
  update gapless.delivery d set crashes = d.crashes - 1
  where gapless.lock_fence(
      forget_deliveries.group_id, forget_deliveries.topic_id, forget_deliveries.partition_id,
      forget_deliveries.epoch, forget_deliveries.token
    )
    and d.group_id = forget_deliveries.group_id and d.topic_id = forget_deliveries.topic_id
    and d.partition_id = forget_deliveries.partition_id and d.crashes > 0
$$;
