-- Compile the text of an SQL condition, unless it is compiled already, and return its digest. It becomes the body of a
-- function of two arguments, e and s, in gapless's own schema, whose name is its digest; subscriptions of all groups
-- with the same text share it, and drop_condition() drops it. A part of subscribe().
-- Raises GL400, with the problem as a sentence that begins behind "the condition": for an invalid expression, and for
-- forbidden parts (check_condition_text.sql, check_condition.sql). Also for 'today' and similar words where they are
-- read as a time, because the server would read them once, here, and mean that day forever: the text is compiled
-- without such words first (without_times.sql), which fails only there.
-- locks: condition, against others that compile or drop one
create or replace function gapless.make_condition(_text text) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp
set standard_conforming_strings = on
-- One text has one meaning, whichever session compiles or evaluates it.
set timezone = 'UTC'
set datestyle = 'ISO, MDY'
set intervalstyle = 'postgres'
set array_nulls = on
set transform_null_equals = off
as $$
declare
  wanted uuid := md5(_text)::uuid;
  maker name := 'condition_' || md5(_text);
  timeless text;
  said text;
  reads_time boolean := false;
begin
  if not gapless.conditions_are_safe() then
    raise exception 'needs role gapless_condition, which may read nothing, to own function ask_condition(): '
      'run gapless init as a role that may create roles'
      using errcode = 'GL400';
  end if;
  perform from gapless.condition c where c.digest = wanted for key share;    -- from now on it cannot be dropped
  if found then
    return wanted;
  end if;
  perform gapless.check_condition_text(_text);
  lock table gapless.condition in share row exclusive mode;
  perform from gapless.condition c where c.digest = wanted;
  if found then
    return wanted;
  end if;
  timeless := gapless.without_times(_text);
  begin
    foreach said in array array_remove(array[nullif(timeless, _text), _text], null) loop
      begin
        execute format(
          'create or replace function gapless.%I(e gapless.condition_event, s gapless.condition_subscription) '
            || 'returns boolean language sql stable return (%s)',
          maker, said
        );
      exception
        when others then
          if said = _text or left(sqlstate, 2) in ('40', '53', '57', '58', 'XX') then
            raise;
          end if;
          reads_time := left(sqlstate, 4) = '2200';    -- an invalid time; other errors come from the text itself
      end;
    end loop;
    perform gapless.check_condition(wanted);
    if reads_time then
      raise exception 'has a time such as ''today'' or ''now'' in quotes, which is read only once, when it is '
        'registered: write current_date, current_date - 1, current_date + 1 or now()'
        using errcode = 'GL400';
    end if;
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
