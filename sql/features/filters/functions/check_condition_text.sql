-- Raise GL400 unless a text can stand in parentheses as one expression and nothing else, before anything parses it:
-- words, numbers, texts in single quotes, operators, balanced parentheses. No ";", no comments, no quoted names, no $,
-- no E'…', with which a text could break out of a statement. check_condition() checks the meaning of the expression.
-- The text may not name a user-defined type: the parser gives a text to its type's input function, and that of an array
-- of a domain, for example, runs the domain's CHECK with the rights of the parsing role. So a dot stands behind
-- pg_catalog, or between e or s and a field; and no word is a type of the session's temporary schema, the only other
-- one on the search path.
-- MUST run with standard_conforming_strings on, as make_condition() does: else a backslash ends no text.
create or replace function gapless.check_condition_text(_text text) returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  tokens text[];
  token text;
  depth int := 0;
  before text := '';    -- the token before, white space included
  last text := '';      -- the token before, without white space, and the two before that
  last_2 text := '';
  last_3 text := '';
  low int := 0;
  high int;
  middle int;
  wrong text;
begin
  if length(_text) > 10000 or octet_length(_text) > 40000 then
    raise exception 'has at most 10000 characters, not %', length(_text) using errcode = 'GL400';
  end if;
  if btrim(_text, E' \t\n\r') = '' then
    raise exception 'is empty' using errcode = 'GL400';
  end if;
  tokens := array(
    select m[1]
    from regexp_matches(
      _text,
      E'([ \\t\\n\\r]+|''(?:[^'']|'''')*''|[0-9][0-9a-zA-Z_.]*|[a-zA-Z_][a-zA-Z0-9_]*|[-+*/<>=~!@#%^&|?]+|[][().,:])',
      'g'
    ) m
  );
  if array_to_string(tokens, '') <> _text then
    high := cardinality(tokens);
    while low < high loop    -- the number of tokens before the first character that is in none
      middle := (low + high + 1) / 2;
      if starts_with(_text, array_to_string(tokens[1:middle], '')) then
        low := middle;
      else
        high := middle - 1;
      end if;
    end loop;
    wrong := substr(_text, length(array_to_string(tokens[1:low], '')) + 1, 1);
  end if;
  foreach token in array tokens[1:case when wrong is null then cardinality(tokens) else low end] loop
    if token ~ '^[-+*/<>=~!@#%^&|?]+$' and token ~ E'--|/\\*' then
      raise exception 'has no comments' using errcode = 'GL400';
    end if;
    if token like '''%' and before ~ '^([a-zA-Z_]|[0-9].*[a-zA-Z_]|&|''|[0-9])' then
      raise exception 'has a text without a space before it: %', left(before || token, 40) using errcode = 'GL400';
    end if;
    if token in ('(', '[') then
      depth := depth + 1;
    elsif token in (')', ']') then
      depth := depth - 1;
      if depth < 0 then
        raise exception 'closes a parenthesis that it does not open' using errcode = 'GL400';
      end if;
    end if;
    before := token;
    continue when token ~ E'^[ \\t\\n\\r]';
    if token = '.' and last ~ '^[a-zA-Z_]' and lower(last) not in ('e', 's', 'pg_catalog') then
      raise exception 'uses nothing but what PostgreSQL comes with, and has nothing of schema %', left(last, 63)
        using errcode = 'GL400';
    elsif token = '.' and lower(last) in ('e', 's')
      and (last_2 = ':' or lower(last_2) in ('as', 'returning', 'of', 'operator'))
    then
      raise exception 'has no type of schema %', last using errcode = 'GL400';
    elsif last = '.' and lower(last_2) in ('e', 's') and token !~ '^[a-zA-Z_]' then
      raise exception 'has fields of e and s, and not %.%', last_2, token using errcode = 'GL400';
    elsif last_2 = '.' and lower(last_3) in ('e', 's') and (token = '(' or token like '''%') then
      raise exception 'has no type or function of schema %', last_3 using errcode = 'GL400';
    end if;
    last_3 := last_2;
    last_2 := last;
    last := token;
  end loop;
  if wrong = ';' then
    raise exception 'is one expression, without ";"' using errcode = 'GL400';
  elsif wrong = '''' then
    raise exception 'has a text that does not end' using errcode = 'GL400';
  elsif wrong is not null then
    raise exception 'has a character that it may not have outside of a text in single quotes: %', wrong
      using errcode = 'GL400';
  end if;
  if depth <> 0 then
    raise exception 'opens a parenthesis that it does not close' using errcode = 'GL400';
  end if;
  select min(t.typname) into wrong
  from pg_type t
  where t.typnamespace = pg_my_temp_schema()
    and t.typname::text in (select left(lower(w.word), 63) from unnest(tokens) w (word));
  if wrong is not null then
    raise exception 'has a word, %, that is a temporary type or table of this session', wrong using errcode = 'GL400';
  end if;
end
$$;
