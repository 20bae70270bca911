-- Return a text as JSON: unchanged where it is JSON, else as a string of JSON. Never fails.
create or replace function gapless.as_json(_text text) returns json
language plpgsql immutable as $$
begin
  return _text::json;
exception
  when others then
    return to_json(_text);
end
$$;
