-- Return the numbers that a field of a cron text means, in order: *, a, a-b, each with /step, several with commas.
-- names: the names of the numbers from low on (jan, mon). Raises GL400 with the field's text.
create or replace function gapless.cron_field(
  _cron text, _what text, _field text, _low int, _high int, _names text[] default '{}'
) returns int[]
language plpgsql immutable as $$
declare
  part text;
  pieces text[];
  first int;
  last int;
  step int;
  found int[] := '{}';
begin
  foreach part in array regexp_split_to_array(lower(_field), ',') loop
    for step in 1..cardinality(_names) loop
      part := regexp_replace(part, E'\\m' || _names[step] || E'\\M', (_low + step - 1)::text);
    end loop;
    pieces := regexp_match(part, E'^(?:(\\*)|(\\d{1,4})(?:-(\\d{1,4}))?)(?:/(\\d{1,4}))?$');
    first := case when pieces[1] is null then pieces[2]::int else _low end;
    -- 5/10 is from 5 to the end, as in every cron.
    last := case
      when pieces[1] is not null or (pieces[3] is null and pieces[4] is not null) then _high
      else coalesce(pieces[3]::int, first)
    end;
    step := coalesce(pieces[4]::int, 1);
    if pieces is null or first < _low or last > _high or last < first or step < 1 then
      raise exception 'cron "%": % cannot be "%"; it is %-%, *, a-b, */n, several with commas',
        _cron, _what, part, _low, _high
        using errcode = 'GL400';
    end if;
    found := found || array(select generate_series(first, last, step));
  end loop;
  return array(select distinct x from unnest(found) x order by x);
end
$$;
