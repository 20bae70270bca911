-- Restore the missing offset rows of a group at the oldest offset of the log, with the lease's epoch, so that the next
-- owner is admitted; returns their number. The caller then moves them to the place where the group is to continue.
create or replace function gapless.restore_offsets(
  group_id text, topic text default null, partition_id int default null
) returns bigint
language sql security definer set search_path = pg_catalog, pg_temp as $$
  with
  restored as (
    insert into gapless.consumer_offsets (group_id, topic_id, partition_id, next_offset, epoch)
    select p.group_id, p.topic_id, p.partition_id, p.next_offset, p.epoch
    from gapless.group_partitions(
      restore_offsets.group_id, restore_offsets.topic, restore_offsets.partition_id
    ) p
    where not exists (
      select from gapless.consumer_offsets o
      where o.group_id = p.group_id and o.topic_id = p.topic_id and o.partition_id = p.partition_id
    )
    on conflict do nothing
    returning *
  ),
  noted as (
    insert into gapless.audit (action, group_id, topic_id, partition_id, detail)
    select 'restore', r.group_id, r.topic_id, r.partition_id, jsonb_build_object('to', r.next_offset)
    from restored r
  )
  select count(*) from restored
$$;
