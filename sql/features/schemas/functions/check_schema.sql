-- Raise GL400 for an invalid schema of an event type. The server cannot check that it is valid JSON Schema.
create or replace function gapless.check_schema(_schema json, _event_type text, _compatibility text) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  if coalesce(json_typeof(_schema), 'null') not in ('object', 'boolean') then
    raise exception 'a schema is a JSON object, or true or false, not %', coalesce(json_typeof(_schema), 'null')
      using errcode = 'GL400';
  end if;
  if octet_length(_schema::text) > 1000000 then
    raise exception 'a schema has at most 1000000 bytes, not %', octet_length(_schema::text) using errcode = 'GL400';
  end if;
  if length(_event_type) not between 1 and 200 or (_event_type <> '*' and position('*' in _event_type) > 0) then
    raise exception '"%" has no schema: a type of events has 1 to 200 characters, and no * among them; * alone is all '
      'others', left(_event_type, 100)
      using errcode = 'GL400';
  end if;
  if _compatibility not in ('backward', 'forward', 'full', 'none') then
    raise exception 'compatibility is backward, forward, full or none, not "%"', left(_compatibility, 100)
      using errcode = 'GL400';
  end if;
end
$$;
