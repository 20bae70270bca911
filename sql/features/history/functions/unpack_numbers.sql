-- Return the numbers of pack_numbers(), as many as there were. Those up to three bytes wide, as nearly all are, are
-- read without the detour of the last case.
create or replace function gapless.unpack_numbers(_packed bytea, _count int) returns bigint[]
language plpgsql immutable parallel safe set search_path = pg_catalog, pg_temp as $$
declare
  width int;
  base bigint;
begin
  if _packed = '' then
    return array_fill(null::bigint, array[_count]);
  end if;
  width := get_byte(_packed, 0);
  base := ('x' || encode(substring(_packed from 2 for 8), 'hex'))::bit(64)::bigint;
  if width = 0 then
    return array_fill(base + 1, array[_count]);
  elsif width = 1 then
    return array(select nullif(get_byte(_packed, n), 0) + base from generate_series(9, 8 + _count) n);
  elsif width = 2 then
    return array(
      select nullif(get_byte(_packed, n) << 8 | get_byte(_packed, n + 1), 0) + base
      from generate_series(9, 7 + 2 * _count, 2) n
    );
  elsif width = 3 then
    return array(
      select nullif((get_byte(_packed, n) << 8 | get_byte(_packed, n + 1)) << 8 | get_byte(_packed, n + 2), 0) + base
      from generate_series(9, 6 + 3 * _count, 3) n
    );
  end if;
  return array(
    select nullif(('x' || lpad(encode(substring(_packed from n for width), 'hex'), 16, '0'))::bit(64)::bigint, 0) + base
    from generate_series(10, 10 + width * (_count - 1), width) n
  );
end
$$;
