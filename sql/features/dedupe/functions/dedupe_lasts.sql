-- Tell whether a dedupe_key is no older than its topic's window. A clock that steps ahead ends none (sure_clock.sql).
create or replace function gapless.dedupe_lasts(_published_ts timestamptz, _window_s double precision) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  sure_ts timestamptz;
begin
  if extract(epoch from clock_timestamp() - _published_ts) < _window_s then
    return true;
  end if;
  sure_ts := gapless.sure_clock(_only_steps => true);
  -- A key after the step is of the same clock; before it, and since the look, at most 5 minutes passed.
  return _published_ts <= sure_ts + interval '5 min' and extract(epoch from sure_ts - _published_ts) < _window_s;
end
$$;
