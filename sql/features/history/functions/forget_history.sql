-- Delete hours before this one: a part of record_history(). The newest of them stays where a series has no row of this
-- hour, because its numbers still hold. Passes rows that a transaction deletes with their group, and hours that are not
-- packed.
create or replace function gapless.forget_history(_hour int) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  delete from gapless.history_hour h
  using (
    select o.series_no, o.hour
    from (
      select s.series_no, (
        select max(x.hour) from gapless.history_hour x where x.series_no = s.series_no and x.hour <= _hour
      ) as first
      from gapless.history_series s
      offset 0
    ) k
    join gapless.history_hour o on o.series_no = k.series_no and o.hour < k.first
    for update of o skip locked
  ) k
  where h.series_no = k.series_no and h.hour = k.hour;
  delete from gapless.history_clock c where c.hour < _hour and c.is_packed;
$$;
