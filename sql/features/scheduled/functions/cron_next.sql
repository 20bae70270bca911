-- Return the first time after `after` at which a cron text is due, by the clock of a named zone.
--   select gapless.cron_next('0 3 * * mon-fri', now(), 'Europe/Berlin');
-- Five fields: minute, hour, day of month, month, day of week (0 and 7 are Sunday; names as jan, mon); or
-- @hourly, @daily, @weekly, @monthly, @yearly. If both days are given, one of them is enough, as in every cron.
--
-- When clocks change: with a * in front of minute or hour the text follows time as it passes (*/15 is due every 15
-- minutes, also in the hour that comes twice). Otherwise each local time is due once: a time that is left out is due as
-- much later as the clock was put forward (02:30 at 03:30), and of a time that comes twice the first is due.
--
-- Raises GL400 for a text that is no cron text or is never due, 22023 for a zone that the server does not know.
create or replace function gapless.cron_next(cron text, after timestamptz, zone text default 'UTC') returns timestamptz
language plpgsql stable as $$
#variable_conflict use_column
declare
  short text := case lower(trim(cron_next.cron))
    when '@hourly' then '0 * * * *'
    when '@daily' then '0 0 * * *'
    when '@midnight' then '0 0 * * *'
    when '@weekly' then '0 0 * * 0'
    when '@monthly' then '0 0 1 * *'
    when '@yearly' then '0 0 1 1 *'
    when '@annually' then '0 0 1 1 *'
    else trim(cron_next.cron)
  end;
  field text[] := regexp_split_to_array(short, E'\\s+');
  minutes int[];
  hours int[];
  days int[];
  months int[];
  weekdays int[];
  is_either boolean;
  is_flowing boolean;
  local timestamp;
  day date;
  day_max date;
  due timestamptz := date_trunc('minute', cron_next.after) + interval '1 minute';
begin
  if cron_next.cron is null or cardinality(field) <> 5 then
    raise exception 'cron "%" has % fields, not 5: minute, hour, day of month, month, day of week',
      cron_next.cron, cardinality(field)
      using errcode = 'GL400';
  end if;
  minutes := gapless.cron_field(cron_next.cron, 'minute', field[1], 0, 59);
  hours := gapless.cron_field(cron_next.cron, 'hour', field[2], 0, 23);
  days := gapless.cron_field(cron_next.cron, 'day of month', field[3], 1, 31);
  months := gapless.cron_field(
    cron_next.cron, 'month', field[4], 1, 12,
    '{jan,feb,mar,apr,may,jun,jul,aug,sep,oct,nov,dec}'
  );
  weekdays := gapless.cron_field(
    cron_next.cron, 'day of week', field[5], 0, 7, '{sun,mon,tue,wed,thu,fri,sat}'
  );
  if 7 = any (weekdays) then
    weekdays := weekdays || 0;
  end if;
  is_either := not starts_with(field[3], '*') and not starts_with(field[5], '*');
  is_flowing := starts_with(field[1], '*') or starts_with(field[2], '*');

  local := due at time zone cron_next.zone;
  day := local::date - case when is_flowing then 0 else 1 end;    -- yesterday's may have been put off
  day_max := day + 366 * 41;    -- a 29 February on a Monday may be 40 years away
  while day <= day_max loop
    if extract(month from day)::int = any (months) and (
      case
        when is_either then extract(day from day)::int = any (days)
          or extract(dow from day)::int = any (weekdays)
        else extract(day from day)::int = any (days) and extract(dow from day)::int = any (weekdays)
      end
    ) then
      if is_flowing then
        local := due at time zone cron_next.zone;
        while local::date = day loop
          if not extract(hour from local)::int = any (hours) then
            due := due + make_interval(mins => 60 - extract(minute from local)::int);
          elsif not extract(minute from local)::int = any (minutes) then
            due := due + interval '1 minute';
          else
            return due;
          end if;
          local := due at time zone cron_next.zone;
        end loop;
      else
        due := (
          select min(i.due)
          from unnest(hours) h
          cross join unnest(minutes) m
          cross join lateral gapless.first_instant(
            day + make_interval(hours => h, mins => m), cron_next.zone
          ) i (due)
          where i.due > cron_next.after
        );
        if due is not null then
          return due;
        end if;
      end if;
    end if;
    day := day + 1;
    if is_flowing then
      due := greatest(due, gapless.first_instant(day::timestamp, cron_next.zone));
    end if;
  end loop;
  raise exception 'cron "%" never fires: no such day comes within 40 years', cron_next.cron
    using errcode = 'GL400';
end
$$;
