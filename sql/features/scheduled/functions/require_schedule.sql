-- Return a schedule by its name, locked. Raises GL404.
create or replace function gapless.require_schedule(_name text) returns gapless.schedule
language plpgsql as $$
declare
  found_schedule gapless.schedule;
begin
  select s.* into found_schedule from gapless.schedule s where s.name = _name for update;
  if not found then
    raise exception 'there is no schedule "%": gapless schedule lists them', _name
      using errcode = 'GL404';
  end if;
  return found_schedule;
end
$$;
