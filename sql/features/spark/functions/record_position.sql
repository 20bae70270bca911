-- Record the position of a reader that keeps its own (for example a Spark query), as a consumer group that status and
-- retention know. The n-th of the arrays belong together. Moves forward only. Raises GL409 for a group with
-- supervisors: their offsets are theirs alone (I7).
-- locks: the consumer_group row, then the group's consumer_offsets rows
create or replace function gapless.record_position(
  _group_id text, _topic text, _partition_ids int[], _next_offsets bigint[]
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  wanted int := gapless.topic_id(_topic);
begin
  perform gapless.create_group(_group_id, _topic);
  perform from gapless.consumer_group g
  where g.group_id = _group_id and g.topic_id = wanted
  for update;
  if exists (
    select from gapless.lease l
    where l.group_id = _group_id and l.topic_id = wanted and l.epoch > 0
  ) then
    raise exception 'group "%" belongs to handlers: give the query a groupId of its own',
      _group_id
      using errcode = 'GL409';
  end if;
  insert into gapless.consumer_offsets (group_id, topic_id, partition_id)
  select _group_id, wanted, p.partition_id
  from unnest(_partition_ids) as p (partition_id)
  on conflict do nothing;
  perform set_config('gapless.seeking', pg_current_xact_id()::text, true);
  update gapless.consumer_offsets c set next_offset = p.next_offset
  from unnest(_partition_ids, _next_offsets)
    as p (partition_id, next_offset)
  where c.ctid = gapless.offset_row(_group_id, wanted, p.partition_id) and c.next_offset < p.next_offset;
end
$$;
