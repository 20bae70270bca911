-- Count the events of a batch that a pipeline could not take and, unless they are dropped, make each a dead letter of
-- its group; in the transaction that decides the batch. The n-th of the arrays belong together.
create or replace function gapless.set_bad_aside(
  _name text, _topic_ids int[], _partition_ids int[], _offsets bigint[], _reasons text[], _is_dropped boolean
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  written int;
begin
  update gapless.pipeline p set bad = p.bad + cardinality(_offsets) where p.name = _name;
  if _is_dropped then
    return;
  end if;
  select sum(gapless.set_aside(
    'pipeline.' || _name, u.topic_id, u.partition_id, u.c_offset,
    array[s.message_ids[u.c_offset - s.base_offset + 1]], 'dead', u.reason, u.reason
  ))
  into written
  from unnest(_topic_ids, _partition_ids, _offsets, _reasons) as u (topic_id, partition_id, c_offset, reason)
  cross join lateral gapless.segments_from(u.topic_id, u.partition_id, u.c_offset, 1) s
  where u.c_offset between s.base_offset and s.last_offset;
  if written is distinct from cardinality(_offsets) then
    raise exception 'pipeline %: of % events to set aside, % are in the log', _name, cardinality(_offsets), written;
  end if;
end
$$;
