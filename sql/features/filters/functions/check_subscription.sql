-- Return the jsonpath condition of a subscription; raise GL400 unless its name and content are valid (subscribe.sql).
-- asks: it has an SQL condition, too.
create or replace function gapless.check_subscription(
  _name text, _match jsonb, _params jsonb, _condition text, _asks boolean
) returns jsonpath
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  wrong text;
begin
  if coalesce(length(_name), 0) not between 1 and 200 then
    raise exception 'the name of a subscription has 1 to 200 characters, not %', coalesce(length(_name), 0)
      using errcode = 'GL400';
  end if;
  if jsonb_typeof(_params) is distinct from 'object' or length(_params::text) > 10000 then
    raise exception 'the params of subscription "%" are a JSON object of at most 10000 characters, not %',
      _name, coalesce(left(_params::text, 100), 'null')
      using errcode = 'GL400';
  end if;
  if jsonb_typeof(_match) is distinct from 'object' or length(_match::text) > 2000 then
    raise exception
      'subscription "%" matches by a JSON object of at most 2000 characters, {"param": "$.field"}, not by %',
      _name, coalesce(left(_match::text, 100), 'null')
      using errcode = 'GL400';
  end if;
  if _match = '{}' and _condition is null and not _asks then
    raise exception 'subscription "%" matches by values, {"param": "$.field"}, a condition, or both, not by nothing',
      _name
      using errcode = 'GL400';
  end if;
  select m.key || ': ' || left(coalesce(m.value, 'null'), 100) into wrong from jsonb_each_text(_match) m
  where m.value is null
    or m.value !~ E'^(event_type|key|host_id|user_id|\\$(\\.[[:alpha:]_][[:alnum:]_]*){1,20})$'
  limit 1;
  if found then
    raise exception
      'subscription "%" cannot match by %: say "$.field", "$.field.field", "event_type", "key", "host_id" or "user_id"',
      _name, wrong
      using errcode = 'GL400';
  end if;
  select string_agg(m, ', ' order by m) into wrong from jsonb_object_keys(_match) m where not _params ? m;
  if wrong is not null then
    raise exception 'subscription "%" has no value for %: give it in params', _name, wrong using errcode = 'GL400';
  end if;
  if _condition is null then
    return null;
  end if;
  return gapless.checked_condition(_condition, _params);
exception when sqlstate 'GL400' then
  raise exception '%', replace(sqlerrm, 'condition of a filter', format('condition of subscription "%s"', _name))
    using errcode = 'GL400';
end
$$;
