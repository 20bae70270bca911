-- Return the jsonpath of a filter's condition, with a value for each of its variables; null for none. Raises GL400 for
-- an invalid jsonpath, and for a variable without a value: that would raise at each event, "silent" or not.
create or replace function gapless.checked_condition(_condition text, _params jsonb) returns jsonpath
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  path jsonpath;
  missing text;
begin
  if jsonb_typeof(_params) <> 'object' or length(_params::text) > 10000 then
    raise exception 'the params of a filter are a JSON object of at most 10000 characters, not %',
      left(_params::text, 100)
      using errcode = 'GL400';
  end if;
  if _condition is null then
    if coalesce(_params, '{}') <> '{}' then
      raise exception 'the params of a filter are for its condition, and there is none' using errcode = 'GL400';
    end if;
    return null;
  end if;
  if length(_condition) > 10000 then
    raise exception 'the condition of a filter has at most 10000 characters, not %', length(_condition)
      using errcode = 'GL400';
  end if;
  begin
    path := _condition::jsonpath;
  exception when others then
    raise exception 'the condition of a filter is no jsonpath: %: %', left(_condition, 100), sqlerrm
      using errcode = 'GL400';
  end;
  -- Each one more multiplies the evaluation by the size of the event (as printed; outside of texts).
  if regexp_replace(path::text, E'"(?:[^"\\\\]|\\\\.)*"', '""', 'g') ~ E'\\*\\*.*\\*\\*' then
    raise exception 'the condition of a filter has ** more than once, which may take forever: once at most'
      using errcode = 'GL400';
  end if;
  -- As printed a variable is $"name"; quoted words without $ are texts, or keys.
  select string_agg(distinct v.name, ', ' order by v.name) into missing
  from (
    select ('"' || m[2] || '"')::json #>> '{}' as name
    from regexp_matches(path::text, E'(\\$?)"((?:[^"\\\\]|\\\\.)*)"', 'g') m
    where m[1] = '$'
  ) v
  where not coalesce(_params, '{}') ? v.name;
  if missing is not null then
    raise exception 'the condition of a filter has no value for $%: give it in params', missing
      using errcode = 'GL400';
  end if;
  perform jsonb_path_match('{}', path, coalesce(_params, '{}'), silent => true);
  return path;
end
$$;
