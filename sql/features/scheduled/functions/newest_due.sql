-- Return the newest due time of a schedule that is not after a time; its next_due if there is no later one. The search
-- goes back in growing steps, so an outage of a year costs no more than one of a minute.
create or replace function gapless.newest_due(_schedule gapless.schedule, _now_ts timestamptz) returns timestamptz
language plpgsql stable as $$
declare
  back interval := interval '1 minute';
  found_due timestamptz;
  following timestamptz;
begin
  loop
    found_due := gapless.schedule_next(
      _schedule, greatest((_schedule).next_due - interval '1 us', _now_ts - back)
    );
    exit when found_due <= _now_ts;
    back := back * 8;
  end loop;
  loop
    following := gapless.schedule_next(_schedule, found_due);
    exit when following > _now_ts;
    found_due := following;
  end loop;
  return found_due;
end
$$;
