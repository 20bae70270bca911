-- A partition without anything left to handle: note once in each layout that it is past the barriers of
-- those before, and tell those that wait for it.
create or replace function gapless.pass_barrier(
  group_id text, topic_id int, partition_id int, epoch bigint, token uuid
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  since int;
  newest int := (select t.layout from gapless.topic t where t.topic_id = pass_barrier.topic_id);
begin
  select c.passed into since from gapless.consumer_offsets c
  where c.group_id = pass_barrier.group_id and c.topic_id = pass_barrier.topic_id
    and c.partition_id = pass_barrier.partition_id and c.passed < newest
    and c.epoch = pass_barrier.epoch and c.token = pass_barrier.token;
  -- Asked after `newest` was read: what came meanwhile may still lie before one of its barriers.
  if not found or not gapless.is_finished(group_id, topic_id, partition_id) then
    return;
  end if;
  update gapless.consumer_offsets c set passed = newest
  where c.group_id = pass_barrier.group_id and c.topic_id = pass_barrier.topic_id
    and c.partition_id = pass_barrier.partition_id
    and c.epoch = pass_barrier.epoch and c.token = pass_barrier.token;
  perform gapless.announce(group_id, topic_id, partition_id, since, newest);
end
$$;
