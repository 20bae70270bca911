-- A mark for each event of a segment, as unit_ends has it, but of merged units.
create or replace function gapless.user_marks(base_offset bigint, events int, unit_ends bigint[])
returns text
language sql
immutable parallel safe
as $$
  select string_agg(case when base_offset + n = any (unit_ends) then '1' else '0' end, '' order by n)
  from generate_series(0, events - 1) n
$$;
