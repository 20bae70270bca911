-- Compile the text of a SQL condition, unless it is, and return its digest. It becomes the body of a function of two
-- arguments, e and s, in gapless's own schema, whose name is its digest; subscriptions of all groups with the same text
-- share it, and drop_condition() takes it away. A part of subscribe().
-- Raises GL400, with what is wrong as a sentence that begins behind "the condition": for what is no such expression,
-- and for what it may not use (check_condition_text.sql, check_condition.sql).
-- locks: condition, against others that compile or drop one
create or replace function gapless.make_condition(_text text)
returns uuid
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set standard_conforming_strings = on
-- One text means one thing, whoever's session compiles it or asks it.
set timezone = 'UTC'
set datestyle = 'ISO, MDY'
set intervalstyle = 'postgres'
set array_nulls = on
set transform_null_equals = off
as $$
declare
  wanted uuid := md5(_text)::uuid;
  maker name := 'condition_' || md5(_text);
begin
  if not gapless.conditions_are_safe() then
    raise exception 'needs role gapless_condition, which may read nothing, to own function ask_condition(): '
      'run gapless init as a role that may create roles'
      using errcode = 'GL400';
  end if;
  perform from gapless.condition c where c.digest = wanted for key share;    -- from now on nobody drops it
  if found then
    return wanted;
  end if;
  perform gapless.check_condition_text(_text);
  lock table gapless.condition in share row exclusive mode;
  perform from gapless.condition c where c.digest = wanted;
  if found then
    return wanted;
  end if;
  begin
    execute format(
      'create function gapless.%I(e gapless.condition_event, s gapless.condition_subscription) returns boolean '
        || 'language sql stable return (%s)',
      maker, _text
    );
    perform gapless.check_condition(wanted);
  exception
    when sqlstate 'GL400' then
      raise;
    when others then
      if left(sqlstate, 2) in ('40', '53', '57', '58', 'XX') then
        raise;
      end if;
      raise exception 'is no SQL condition: %', sqlerrm using errcode = 'GL400';
  end;
  execute format(
    'revoke all on function gapless.%I(gapless.condition_event, gapless.condition_subscription) from public', maker
  );
  execute format(
    'grant execute on function gapless.%I(gapless.condition_event, gapless.condition_subscription) '
      || 'to gapless_condition',
    maker
  );
  insert into gapless.condition (digest, expression) values (wanted, _text);
  return wanted;
end
$$;
