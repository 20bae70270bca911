-- Return a mark for each event of a segment, as unit_ends has it, but for merged units.
create or replace function gapless.user_marks(_base_offset bigint, _events int, _unit_ends bigint[]) returns text
language sql immutable parallel safe as $$
  select string_agg(case when _base_offset + n = any (_unit_ends) then '1' else '0' end, '' order by n)
  from generate_series(0, _events - 1) n
$$;
