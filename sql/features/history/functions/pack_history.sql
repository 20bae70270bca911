-- Move an hour of history_minute into history_hour: a part of record_history(), when the hour is over.
create or replace function gapless.pack_history(_hour int) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
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
  where m.minute between _hour * 60 and _hour * 60 + 59
  group by m.series_no;
  delete from gapless.history_minute m where m.minute between _hour * 60 and _hour * 60 + 59;
  update gapless.history_clock c set is_packed = true where c.hour = _hour;
$$;
