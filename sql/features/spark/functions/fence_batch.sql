-- Mark a batch as published, in the transaction that publishes it; false when it was published before. Waits for
-- another transaction that is publishing the same batch right now. Only the newest batches of a sink are kept: an older
-- one than those counts as published, too.
create or replace function gapless.fence_batch(_sink_id text, _batch_id bigint, _events bigint) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if exists (
    select from gapless.sink_batch b
    where b.sink_id = _sink_id and b.batch_id > _batch_id
  ) then
    return false;
  end if;
  insert into gapless.sink_batch (sink_id, batch_id, events)
  values (_sink_id, _batch_id, _events)
  on conflict do nothing;
  if not found then
    return false;
  end if;
  delete from gapless.sink_batch b
  where b.sink_id = _sink_id and b.batch_id < _batch_id - 100;
  return true;
end
$$;
