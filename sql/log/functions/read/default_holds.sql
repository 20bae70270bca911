-- Tell whether the default chunk has an event between the lowest and the highest of these ids. A part of
-- is_in_default().
-- locks: the default chunk, until it returns
create or replace function gapless.default_holds(_ids bigint[]) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set plan_cache_mode = auto as $$
declare
  low bigint := (select min(i) from unnest(_ids) i);
  high bigint := (select max(i) from unnest(_ids) i);
  is_there boolean;
begin
  is_there := exists (select from gapless.outbox_message_default o where o.id between low and high);
  raise exception using errcode = 'GL000';
exception
  when sqlstate 'GL000' then
    return is_there;
end
$$;
