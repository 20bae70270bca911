-- Say, in the transaction that publishes a batch, that it does; false when it was published before.
-- Waits for another transaction that is publishing the same batch right now. Of a sink only the
-- newest batches are kept: an older one than those was published, too.
create or replace function gapless.fence_batch(sink_id text, batch_id bigint, events bigint)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  if exists (
    select from gapless.sink_batch b
    where b.sink_id = fence_batch.sink_id and b.batch_id > fence_batch.batch_id
  ) then
    return false;
  end if;
  insert into gapless.sink_batch (sink_id, batch_id, events)
  values (fence_batch.sink_id, fence_batch.batch_id, fence_batch.events)
  on conflict do nothing;
  if not found then
    return false;
  end if;
  delete from gapless.sink_batch b
  where b.sink_id = fence_batch.sink_id and b.batch_id < fence_batch.batch_id - 100;
  return true;
end
$$;
