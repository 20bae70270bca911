-- Record, for a partition without remaining events, once in each layout, that it is past the barriers of the layouts
-- before, and notify the partitions that wait for it.
create or replace function gapless.pass_barrier(
  _group_id text, _topic_id int, _partition_id int, _epoch bigint, _token uuid
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  since int;
  newest int := (select t.layout from gapless.topic t where t.topic_id = _topic_id);
begin
  select c.passed into since from gapless.consumer_offsets c
  where c.group_id = _group_id and c.topic_id = _topic_id
    and c.partition_id = _partition_id and c.passed < newest
    and c.epoch = _epoch and c.token = _token;
  -- Read after `newest`: events that came in between may still lie before one of its barriers.
  if not found or not gapless.is_finished(_group_id, _topic_id, _partition_id) then
    return;
  end if;
  update gapless.consumer_offsets c set passed = newest
  where c.group_id = _group_id and c.topic_id = _topic_id and c.partition_id = _partition_id
    and c.epoch = _epoch and c.token = _token;
  perform gapless.announce(_group_id, _topic_id, _partition_id, since, newest);
end
$$;
