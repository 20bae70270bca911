-- Return the first time after `after` that is a whole number of intervals after starts_at, by the clock of a zone. Each
-- is counted from starts_at, so months do not drift (31 January, 28 February, 31 March). Days are days of the zone's
-- calendar; hours and smaller units are elapsed time.
create or replace function gapless.interval_next(
  _every interval, _starts_at timestamptz, _after timestamptz, _zone text
) returns timestamptz
language plpgsql stable as $$
declare
  -- An upper bound of the interval: a time that is counted from it is never too late.
  longest_s numeric := extract(year from _every) * 31622400 + extract(month from _every) * 2678400
    + extract(day from _every) * 90000
    + extract(epoch from _every - date_trunc('day', _every));
  n bigint := greatest(0, floor(extract(epoch from _after - _starts_at) / longest_s))::bigint;
  due timestamptz;
begin
  loop
    due := case
      when date_trunc('day', _every) <> interval '0'
        then gapless.first_instant((_starts_at at time zone _zone) + _every * n, _zone)
      else _starts_at + _every * n
    end;
    if due > _after then
      return due;
    end if;
    n := n + 1;
  end loop;
end
$$;
