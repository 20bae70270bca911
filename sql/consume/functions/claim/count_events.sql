-- Return the number of these events that exist.
-- plan: as claim_events()
create or replace function gapless.count_events(_ids bigint[]) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  low bigint := (select min(i) from unnest(_ids) i);
  high bigint := (select max(i) from unnest(_ids) i);
  found_events bigint;
begin
  select count(*) into found_events
  from gapless.outbox_message_t o
  where o.id between low and high and o.id = any ((select _ids)::bigint[]);
  if gapless.is_in_default(_ids) then
    raise exception using errcode = 'GL000';
  end if;
  return found_events;
exception
  when sqlstate 'GL000' then
    return found_events;
end
$$;
