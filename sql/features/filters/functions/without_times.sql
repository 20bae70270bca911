-- Return a text of SQL in which no text in single quotes has a word that means another time each day: now, today,
-- tomorrow and yesterday are cut to their first letters (which may be a part of an escape, as in JSON), so they are no
-- times. A part of make_condition(). The text MUST have passed check_condition_text(): a quote begins or ends a text.
create or replace function gapless.without_times(_text text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
  select string_agg(
    case
      when p.part[1] like '''%'
        then regexp_replace(p.part[1], '(n)ow|(t)oday|(t)omorrow|(y)esterday', E'\\1\\2\\3\\4xx', 'gi')
      else p.part[1]
    end,
    '' order by p.n
  )
  from regexp_matches(_text, E'(''(?:[^'']|'''')*''|[^'']+)', 'g') with ordinality p (part, n)
$$;
