-- Move a pipeline from one place to the next, in the transaction of its effects. The n-th of the arrays
-- belong together. Refused with GL409 unless the pipeline is at this batch and at these offsets: then
-- another run has been faster, and nothing of this one may commit.
-- locks: the pipeline's row, then its consumer_offsets rows
create or replace function gapless.end_batch(
  name text, batch bigint, topic_ids int[], partition_ids int[],
  from_offsets bigint[], to_offsets bigint[], events bigint
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  moved int;
begin
  update gapless.pipeline p
  set batch = p.batch + 1, planned = null, files = null, error = null,
    events = p.events + end_batch.events, done_ts = clock_timestamp()
  where p.name = end_batch.name and p.batch = end_batch.batch;
  if not found then
    raise exception 'pipeline % is not at batch % any more: it runs elsewhere, too', name, batch
      using errcode = 'GL409';
  end if;
  insert into gapless.consumer_offsets (group_id, topic_id, partition_id)
  select 'pipeline.' || end_batch.name, u.topic_id, u.partition_id
  from unnest(end_batch.topic_ids, end_batch.partition_ids) as u (topic_id, partition_id)
  on conflict do nothing;
  perform set_config('gapless.seeking', pg_current_xact_id()::text, true);
  update gapless.consumer_offsets c set next_offset = u.to_offset
  from unnest(
    end_batch.topic_ids, end_batch.partition_ids, end_batch.from_offsets, end_batch.to_offsets
  ) as u (topic_id, partition_id, from_offset, to_offset)
  where c.group_id = 'pipeline.' || end_batch.name and c.topic_id = u.topic_id
    and c.partition_id = u.partition_id and c.next_offset = u.from_offset;
  get diagnostics moved = row_count;
  if moved <> cardinality(end_batch.topic_ids) then
    raise exception 'pipeline % has been moved to other offsets meanwhile', name
      using errcode = 'GL409';
  end if;
end
$$;
