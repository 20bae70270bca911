-- Tell whether a filter's condition holds for a payload: null: it does not; '': it does; else the reason why it cannot
-- be evaluated (a payload that is no jsonb: \u0000, a number out of range). Such an event is delivered: a filter that
-- cannot be evaluated loses nothing. Errors that do not concern the event (out of memory, a lost session) are raised,
-- and so is a timeout.
create or replace function gapless.condition_error(_payload json, _condition jsonpath, _params jsonb) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return case when jsonb_path_match(_payload::jsonb, _condition, _params, silent => true) then '' end;
exception when others then
  if left(sqlstate, 2) in ('40', '53', '57', '58', 'XX') then
    raise;
  end if;
  return 'the filter could not be asked: ' || sqlerrm;
end
$$;
