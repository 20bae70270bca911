-- Return a zone's name, if the server knows it. Raises GL400.
-- MUST be one of the names: `at time zone` takes any text that looks like POSIX, and reads a typing error as UTC.
create or replace function gapless.known_zone(_zone text) returns text
language plpgsql stable as $$
begin
  if exists (select from pg_timezone_names n where n.name = _zone) then
    return _zone;
  end if;
  raise exception 'there is no time zone "%": give a name as Europe/Berlin, or UTC', _zone
    using errcode = 'GL400';
end
$$;
