-- Move a pipeline from one place to the next, in the transaction of its effects. The n-th of the arrays belong
-- together. Raises GL409 unless the pipeline is at this batch, of this epoch, and at these offsets: then another run
-- has been faster, or has taken over, and nothing of this one may commit (I7).
-- locks: the pipeline's row, then its consumer_offsets rows
create or replace function gapless.end_batch(
  _name text, _batch bigint, _topic_ids int[], _partition_ids int[],
  _from_offsets bigint[], _to_offsets bigint[], _events bigint, _epoch bigint
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  moved int;
begin
  update gapless.pipeline p
  set batch = p.batch + 1, planned = null, files = null, error = null, failing_ts = null,
    events = p.events + _events, done_ts = clock_timestamp()
  where p.name = _name and p.batch = _batch and p.epoch = _epoch;
  if not found then
    raise exception 'pipeline % is not at batch % any more: it runs elsewhere, too', _name, _batch
      using errcode = 'GL409';
  end if;
  insert into gapless.consumer_offsets (group_id, topic_id, partition_id)
  select 'pipeline.' || _name, u.topic_id, u.partition_id
  from unnest(_topic_ids, _partition_ids) as u (topic_id, partition_id)
  on conflict do nothing;
  perform set_config('gapless.seeking', pg_current_xact_id()::text, true);
  update gapless.consumer_offsets c set next_offset = u.to_offset
  from unnest(
    _topic_ids, _partition_ids, _from_offsets, _to_offsets
  ) as u (topic_id, partition_id, from_offset, to_offset)
  where c.ctid = gapless.offset_row('pipeline.' || _name, u.topic_id, u.partition_id) and c.next_offset = u.from_offset;
  get diagnostics moved = row_count;
  if moved <> cardinality(_topic_ids) then
    raise exception 'pipeline % has been moved to other offsets meanwhile', _name
      using errcode = 'GL409';
  end if;
end
$$;
