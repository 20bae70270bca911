-- Split a key's template: text, column, text, column, … text. {id} is a column, {{ and }} are braces; a column with a
-- brace in its name cannot be named. Raises GL400 for an invalid template, or one that names no column.
create or replace function gapless.key_parts(_template text) returns text[]
language plpgsql immutable as $$
declare
  parts text[] := '{""}';
  piece text;
begin
  for piece in
    select m[1] from regexp_matches(_template, E'\\{\\{|\\}\\}|\\{[^{}]+\\}|[^{}]+|[{}]', 'g') m
  loop
    if piece in ('{', '}') then
      raise exception 'key "%" has a lone %: columns are {id}, braces are {{ and }}', _template, piece
        using errcode = 'GL400';
    elsif piece ~ E'^\\{[^{]' then
      parts := parts || array[substr(piece, 2, length(piece) - 2), ''];
    else
      piece := case piece when '{{' then '{' when '}}' then '}' else piece end;
      parts[cardinality(parts)] := parts[cardinality(parts)] || piece;
    end if;
  end loop;
  if cardinality(parts) > 65 or length(_template) > 4000 then    -- format() takes 100 arguments
    raise exception 'key "%…" is too long: at most 32 columns and 4000 characters', left(_template, 60)
      using errcode = 'GL400';
  end if;
  if cardinality(parts) = 1 then
    raise exception 'key "%" names no column, so all events would have one key: write {id} for column id', _template
      using errcode = 'GL400';
  end if;
  return parts;
end
$$;
