-- Return the events with these ids, in any order, for a transaction that lasts: no table that was read stays locked.
-- The rows outlive the subtransaction in which they were read. MUST be whole: a composite value refers to nothing in
-- the chunk any more, which may be emptied before they are sent.
-- plan: as claim_events()
create or replace function gapless.events_of(_ids bigint[]) returns setof gapless.outbox_message_t
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  low bigint := (select min(i) from unnest(_ids) i);
  high bigint := (select max(i) from unnest(_ids) i);
begin
  return query
  select (x.event).*
  from (
    select o as event from gapless.outbox_message_t o
    where o.id between low and high and o.id = any ((select _ids)::bigint[])
    offset 0
  ) x;
  raise exception using errcode = 'GL000';
exception
  when sqlstate 'GL000' then
    null;
end
$$;
