-- Look at the clock before it decides about deletions, and each minute while a sequencer runs. sure_clock() doubts a
-- step ahead of more than 5 minutes since the look before (before the first: the newest run) for an hour.
-- is_step: the sequencer's role is held, so there were looks all the time, and the clock was set; else it may be that
-- there were none. A clock that is put back to before the step ends the doubt.
-- Writes at most once a minute. locks: clock_look, by try
create or replace function gapless.look_at_clock() returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  now_ts timestamptz := clock_timestamp();
  seen gapless.clock_look;
begin
  select c.* into seen from gapless.clock_look c
  where (c.looked_ts between now_ts - interval '1 min' and now_ts) is not true
  for no key update skip locked;
  if not found then
    return;
  end if;
  if not coalesce(now_ts >= seen.doubted_ts and now_ts < seen.doubted_ts + interval '1 hour', false) then
    seen.sure_ts := coalesce(seen.looked_ts, (
      select r.ran_ts from (select s.run, s.ran_ts from gapless.sequencer s order by s.run desc limit 1) r
      where r.run > 0 and r.ran_ts <= now_ts    -- init is no look: nothing is there yet
    ));
    seen.doubted_ts := case when now_ts > seen.sure_ts + interval '5 min' then now_ts end;
    seen.is_step := seen.doubted_ts is not null and gapless.is_role_held();
  end if;
  update gapless.clock_look c
  set looked_ts = now_ts, sure_ts = seen.sure_ts, doubted_ts = seen.doubted_ts, is_step = seen.is_step;
end
$$;
