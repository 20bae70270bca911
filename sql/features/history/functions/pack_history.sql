-- Move an hour of history_minute into history_hour: a part of record_history(), when the hour is over. Where it is
-- packed already, because the clock was ahead for a moment, its rows are packed again, with those that came since. A
-- minute that forget_history() forgot may be recorded again: the new row stays.
create or replace function gapless.pack_history(_hour int) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  insert into gapless.history_minute
    (series_no, minute, lag, oldest, handled, published, dead_letters, members)
  select s.series_no, u.*
  from (select distinct m.series_no from gapless.history_minute m where m.minute / 60 = _hour) s
  join gapless.history_hour h on h.series_no = s.series_no and h.hour = _hour
  cross join lateral gapless.unpack_hour(h) u
  on conflict do nothing;
  delete from gapless.history_hour h
  where h.hour = _hour and exists (
    select from gapless.history_minute m where m.series_no = h.series_no and m.minute / 60 = _hour
  );
  insert into gapless.history_hour
    (series_no, hour, minutes, lag, oldest, handled, published, dead_letters, members)
  select m.series_no, _hour, bit_or(1::bigint << m.minute % 60),
    gapless.pack_numbers(array_agg(m.lag order by m.minute)),
    gapless.pack_numbers(array_agg(m.oldest order by m.minute)),
    gapless.pack_numbers(array_agg(m.handled order by m.minute)),
    gapless.pack_numbers(array_agg(m.published order by m.minute)),
    gapless.pack_numbers(array_agg(m.dead_letters order by m.minute)),
    gapless.pack_numbers(array_agg(m.members order by m.minute))
  from gapless.history_minute m
  where m.minute / 60 = _hour
  group by m.series_no;
  delete from gapless.history_minute m where m.minute / 60 = _hour;
  update gapless.history_clock c set is_packed = true where c.hour = _hour;
$$;
