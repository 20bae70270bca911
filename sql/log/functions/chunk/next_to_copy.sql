-- Return the first id of the default chunk that is in no copy and was not dropped; null: there is none
-- (empty_default_chunk.sql). By index: a look-up for each copy.
create or replace function gapless.next_to_copy() returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off as $$
declare
  pos bigint := (select s.dropped_upto from gapless.retention_state s);
  found_id bigint;
  copy record;
begin
  for copy in
    select c.from_id, c.upto from gapless.chunk_copy c
    union all
    select null, null
    order by 1 nulls last
  loop
    select min(o.id) into found_id from gapless.outbox_message_default o
    where o.id >= pos and (copy.from_id is null or o.id < copy.from_id);
    exit when found_id is not null;
    pos := greatest(pos, copy.upto);
  end loop;
  return found_id;
end
$$;
