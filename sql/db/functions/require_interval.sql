-- Raise GL400 unless an interval is finite, not null, and above zero, or zero where that makes sense. Days and months
-- count as 24 hours and 30 days, in no time zone. Returns seconds.
create or replace function gapless.require_interval(_name text, _value interval, _zero boolean) returns double precision
language plpgsql immutable as $$
declare
  seconds double precision := extract(epoch from _value);
begin
  if seconds is null or seconds < 0 or seconds = 0 and not _zero or seconds > 31622400 or seconds = 'NaN' then
    raise exception '% is a time %, at most 366 days, not %',
      _name, case when _zero then 'from 0 s on' else 'above 0 s' end, coalesce(_value::text, 'null')
      using errcode = 'GL400';
  end if;
  return seconds;
end
$$;
