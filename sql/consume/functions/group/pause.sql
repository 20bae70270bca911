-- Pause a group, one topic of it or one partition. The batch in progress is finished, no other is claimed, and the
-- partition's worker is released. The partition keeps its place in the plan: after resume() the same member continues.
-- The pause holds until resume() ends it, over restarts of every process.
-- Returns the number of new pauses; 0: everything in the range was paused already. Waits for no batch.
-- holder: the owner of the pause, for programs; people leave it out.
create or replace function gapless.pause(
  group_id text, topic text default null, partition_id int default null, reason text default null,
  holder uuid default '00000000-0000-0000-0000-000000000000'
) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  new_pauses int;
begin
  with made as (
    insert into gapless.group_pause (group_id, topic_id, partition_id, holder, reason)
    select distinct p.group_id, p.topic_id, coalesce(pause.partition_id, -1), pause.holder,
      pause.reason
    from gapless.group_partitions(pause.group_id, pause.topic, pause.partition_id) p
    on conflict do nothing
    returning group_id, topic_id, partition_id, reason
  ),
  noted as (
    insert into gapless.audit (action, group_id, topic_id, partition_id, detail)
    select 'pause', m.group_id, m.topic_id, nullif(m.partition_id, -1),
      jsonb_build_object('reason', m.reason, 'holder', pause.holder)
    from made m
  )
  select count(*) into new_pauses from made;
  perform gapless.tell_group(pause.group_id, 'pause');
  return new_pauses;
end
$$;
