-- Publish the due events of schedules, as a part of promote(): one event for each schedule and due time, and the move
-- of next_due in the same transaction; returns their number. Its caller has guard_promoting.
-- Several due times since the last look are `missed`: 'once' publishes the newest, 'all' publishes each in turn (at
-- most max_events in a call), 'skip' publishes the newest if it is no older than a minute.
-- A schedule without a next due time, because its zone is gone, is stopped with the reason (trouble); the others
-- continue. MUST compare next_due and last_due: a clock that is put back publishes nothing again. After a clock that
-- was ahead, a schedule continues with the next due time from now on; due times that have their events already, from
-- jumped_ts to last_due, are remembered (ahead) for a day, and pass.
-- jumped_ts: the end of the last gap of more than 5 minutes, or a moment after the last skipped due time, which has no
-- event although it is last_due, too.
-- locks: rows of schedule
create or replace function gapless.fire_schedules(_max_events int) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  now_ts timestamptz := gapless.clock();
  each gapless.schedule;
  due timestamptz;
  later timestamptz;
  published bigint := 0;
  count_fired int;
  is_jump boolean;    -- so much was missed at once that a clock may have gone ahead: the times between are not passed
  is_late boolean;    -- the missed times are to be skipped
  error_text text;
begin
  for each in
    select * from gapless.schedule s where s.last_due > now_ts + interval '1 s' for update skip locked
  loop
    later := null;
    error_text := null;
    begin
      later := gapless.schedule_next(each, now_ts);
    exception
      when others then
        error_text := sqlerrm;
    end;
    update gapless.schedule s
    set ahead = gapless.fired_dues(s), last_due = now_ts, next_due = later, jumped_ts = now_ts, trouble = error_text
    where s.name = each.name;
  end loop;
  for each in
    select * from gapless.schedule s
    where s.next_due <= now_ts and s.paused_ts is null
    order by s.next_due
    limit _max_events
    for update skip locked
  loop
    due := each.next_due;
    later := null;
    error_text := null;
    count_fired := 0;
    is_jump := false;
    begin
      later := gapless.schedule_next(each, due);
      if each.missed <> 'all' and later <= now_ts then
        due := gapless.newest_due(each, now_ts);
        later := gapless.schedule_next(each, due);
        is_jump := due > each.next_due + interval '5 minutes';
      end if;
    exception
      when others then
        error_text := sqlerrm;
    end;
    is_late := each.missed = 'skip' and now_ts - due > interval '1 minute';
    if due > coalesce(each.last_due, '-infinity') then
      if is_jump or is_late then
        each.ahead := gapless.fired_dues(each);
        each.jumped_ts := due;
      end if;
      if is_late then
        each.last_due := due;
        each.jumped_ts := due + interval '1 us';
      end if;
      loop
        exit when is_late;
        if not each.ahead @> due then
          perform gapless.publish_due(each, due);
          count_fired := count_fired + 1;
        end if;
        each.last_due := due;
        exit when each.missed <> 'all' or later is null or later > now_ts
          or published + count_fired >= _max_events;
        due := later;
        begin
          later := gapless.schedule_next(each, due);
        exception
          when others then
            later := null;
            error_text := sqlerrm;
        end;
      end loop;
    end if;
    update gapless.schedule s
    set next_due = later, last_due = each.last_due, fired = s.fired + count_fired, trouble = error_text,
      jumped_ts = each.jumped_ts, ahead = each.ahead * tstzmultirange(tstzrange(now_ts - interval '1 day', null))
    where s.name = each.name;
    published := published + count_fired;
    exit when published >= _max_events;
  end loop;
  return published;
end
$$;
