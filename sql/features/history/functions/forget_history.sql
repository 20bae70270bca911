-- Delete hours before this one: a part of record_history(). The newest of them stays where a series has no row of this
-- hour, because its numbers still hold.
create or replace function gapless.forget_history(_hour int) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  delete from gapless.history_hour h
  using (
    select s.series_no, (
      select max(x.hour) from gapless.history_hour x where x.series_no = s.series_no and x.hour <= _hour
    ) as first
    from gapless.history_series s
    offset 0
  ) k
  where h.series_no = k.series_no and h.hour < k.first;
  delete from gapless.history_clock c where c.hour < _hour;
$$;
