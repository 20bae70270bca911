-- Raise GL400 unless a text can stand in parentheses as one expression and nothing else, before anything parses it:
-- words, numbers, texts in single quotes, operators, balanced parentheses. No ";", no comments, no quoted names, no
-- $, no E'…': what a statement could be broken out of with. What the expression means is for check_condition().
-- MUST run with standard_conforming_strings on, as make_condition() does: else a backslash ends no text.
create or replace function gapless.check_condition_text(_text text)
returns void
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  token record;
  depth int := 0;
  upto int := 0;     -- characters that tokens have
  before text := '';
  wrong text;
begin
  if length(_text) > 10000 or octet_length(_text) > 40000 then
    raise exception 'has at most 10000 characters, not %', length(_text) using errcode = 'GL400';
  end if;
  if btrim(_text, E' \t\n\r') = '' then
    raise exception 'is empty' using errcode = 'GL400';
  end if;
  for token in
    select m[1] as word
    from regexp_matches(
      _text,
      '([ \t\n\r]+|''(?:[^'']|'''')*''|[0-9][0-9a-zA-Z_.]*|[a-zA-Z_][a-zA-Z0-9_]*|[-+*/<>=~!@#%^&|?]+|[][().,:])',
      'g'
    ) m
  loop
    if substr(_text, upto + 1, length(token.word)) <> token.word then
      exit;    -- something before it is none of these
    end if;
    upto := upto + length(token.word);
    if token.word ~ '^[-+*/<>=~!@#%^&|?]+$' and token.word ~ '--|/\*' then
      raise exception 'has no comments' using errcode = 'GL400';
    end if;
    if token.word like '''%' and before ~ '^([a-zA-Z_]|[0-9].*[a-zA-Z_]|&|''|[0-9])' then
      raise exception 'has a text without a space before it: %', left(before || token.word, 40) using errcode = 'GL400';
    end if;
    if token.word in ('(', '[') then
      depth := depth + 1;
    elsif token.word in (')', ']') then
      depth := depth - 1;
      if depth < 0 then
        raise exception 'closes a parenthesis that it does not open' using errcode = 'GL400';
      end if;
    end if;
    before := token.word;
  end loop;
  if upto < length(_text) then
    wrong := substr(_text, upto + 1, 1);
    if wrong = ';' then
      raise exception 'is one expression, without ";"' using errcode = 'GL400';
    elsif wrong = '''' then
      raise exception 'has a text that does not end' using errcode = 'GL400';
    end if;
    raise exception 'has a character that it may not have outside of a text in single quotes: %', wrong
      using errcode = 'GL400';
  end if;
  if depth <> 0 then
    raise exception 'opens a parenthesis that it does not close' using errcode = 'GL400';
  end if;
end
$$;
