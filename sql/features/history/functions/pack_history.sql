-- Move an hour of history_minute into history_hour, at most _series_max series of it: a part of record_history(), when
-- the hour is over. Where it is packed already, because the clock was ahead for a moment, its rows are packed again,
-- with those that came since. A minute that forget_history() forgot may be recorded again: the new row stays.
-- Returns the number of series that were packed, and notes when all are.
-- locks: these series, and passes one that a transaction deletes with its group
create or replace function gapless.pack_history(_hour int, _series_max int) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  picked int[];
begin
  picked := array(
    select s.series_no from gapless.history_series s
    where exists (
      select from gapless.history_minute m
      where m.series_no = s.series_no and m.minute between _hour * 60 and _hour * 60 + 59
    )
    limit _series_max
    for key share skip locked
  );
  insert into gapless.history_minute
    (series_no, minute, lag, oldest, handled, published, dead_letters, members)
  select h.series_no, u.*
  from gapless.history_hour h
  cross join lateral gapless.unpack_hour(h) u
  where h.series_no = any (picked) and h.hour = _hour
  on conflict do nothing;
  delete from gapless.history_hour h where h.series_no = any (picked) and h.hour = _hour;
  with moved as (
    delete from gapless.history_minute m
    where m.series_no = any (picked) and m.minute between _hour * 60 and _hour * 60 + 59
    returning m.*
  )
  insert into gapless.history_hour
    (series_no, hour, minutes, lag, oldest, handled, published, dead_letters, members)
  select m.series_no, _hour, bit_or(1::bigint << m.minute % 60),
    gapless.pack_numbers(array_agg(m.lag order by m.minute)),
    gapless.pack_numbers(array_agg(m.oldest order by m.minute)),
    gapless.pack_numbers(array_agg(m.handled order by m.minute)),
    gapless.pack_numbers(array_agg(m.published order by m.minute)),
    gapless.pack_numbers(array_agg(m.dead_letters order by m.minute)),
    gapless.pack_numbers(array_agg(m.members order by m.minute))
  from moved m
  group by m.series_no;
  if cardinality(picked) < _series_max and not exists (
    select from gapless.history_minute m where m.minute between _hour * 60 and _hour * 60 + 59
  ) then
    update gapless.history_clock c set is_packed = true where c.hour = _hour;
  end if;
  return cardinality(picked);
end
$$;
