-- Record a minute: see record_history(), which knows the time. Writes a row for each series whose numbers changed.
-- Counts of a minute are the growth since the recording before, which was made when that minute began. They are null
-- (unknown) where that minute was not recorded, the clock was set, or the group was moved by a person. A recording that
-- is late, because its recorder died, leaves the growth of all but 60 s to the next one: no rush is shown that did not
-- happen. A minute is recorded once: a clock that was set back waits. Hours that are over are packed in slices, a slice
-- with each recording, within half an hour.
-- locks: history_state, so that one recording is made at a time
create or replace function gapless.record_history_at(_at timestamptz, _keep_hours int) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  this int := floor(extract(epoch from _at) / 60);
  goes_on boolean;
  state gapless.history_state;
  elapsed_s numeric;
  since_xid xid := pg_snapshot_xmin(pg_current_snapshot())::xid;    -- before the sample, so none is passed by
  past int;
  slice int;
  told int;
begin
  if (_keep_hours between 0 and 8760) is not true then
    raise exception 'history is kept for 0 to 8760 hours, not %', _keep_hours using errcode = 'GL400';
  end if;
  select s.* into strict state from gapless.history_state s for no key update;
  if _keep_hours = 0 then
    if state.keep_hours is distinct from 0 then
      delete from gapless.history_series;
      delete from gapless.history_clock;
      update gapless.history_state set keep_hours = 0, last_minute = null, last_ts = null;
    end if;
    return 0;
  end if;
  insert into gapless.history_clock as c (hour, minutes) values (this / 60, 1::bigint << this % 60)
  on conflict (hour) do update set minutes = c.minutes | excluded.minutes, is_packed = false
  where c.minutes & excluded.minutes = 0;
  if not found then
    if this <> state.last_minute then    -- the clock was set back
      update gapless.history_state set last_minute = null;
    end if;
    return 0;
  end if;
  goes_on := coalesce(state.last_minute = this - 1, false);
  select greatest(500, count(*) / 30) into slice from gapless.history_series s;
  for past in select c.hour from gapless.history_clock c where c.hour <> this / 60 and not c.is_packed order by 1 loop
    slice := slice - gapless.pack_history(past, slice);
    exit when slice <= 0;
  end loop;
  if not goes_on or this % 60 = 0 then
    perform gapless.look_at_clock();
    perform gapless.forget_history(
      floor(extract(epoch from least(_at, gapless.sure_clock())) / 3600)::int - _keep_hours
    );
  end if;
  elapsed_s := extract(epoch from _at - state.last_ts);
  told := gapless.record_series(this, goes_on, case when elapsed_s > 65 then 60 / elapsed_s else 1 end);
  update gapless.history_state s
  set keep_hours = _keep_hours, last_minute = this, last_ts = _at, open_xid = since_xid;
  return told;
end
$$;
