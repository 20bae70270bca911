-- Check the arguments of a schedule and return it: an existing topic, a cron text or interval that comes round, a known
-- zone. Raises GL400, GL404 (topic).
create or replace function gapless.checked_schedule(
  _name text, _topic text, _cron text, _every interval, _zone text, _missed text, _starts_at timestamptz
) returns gapless.schedule
language plpgsql stable as $$
declare
  made gapless.schedule;
begin
  if not coalesce(_name ~ '^[A-Za-z0-9._-]{1,200}$', false) then
    raise exception '"%" is no name of a schedule: use 1 to 200 letters, digits, dots, dashes and underscores',
      _name
      using errcode = 'GL400';
  end if;
  if (_cron is null) = (_every is null) then
    raise exception 'schedule "%": give cron or every, and not both', _name
      using errcode = 'GL400';
  end if;
  -- Each part, because '1 month -40 days' is sometimes positive.
  if _every < interval '1 second' or extract(epoch from _every - date_trunc('day', _every)) < 0
    or extract(day from _every) < 0 or extract(month from _every) < 0
    or not _every < interval '1000 years'
  then
    raise exception 'schedule "%": every % is no rhythm: give 1 second or more', _name, _every
      using errcode = 'GL400';
  end if;
  if not coalesce(_missed in ('once', 'all', 'skip'), false) then
    raise exception 'schedule "%": missed is once, all or skip, not %', _name, _missed
      using errcode = 'GL400';
  end if;
  if not _starts_at between '1970-01-01 00:00+00' and '9000-01-01 00:00+00' then
    raise exception 'schedule "%": starts_at % is no time to begin at: give one from 1970 to 9000',
      _name, _starts_at
      using errcode = 'GL400';
  end if;
  made.name := _name;
  made.topic_id := gapless.topic_id(_topic);
  made.cron := _cron;
  made.every := _every;
  made.zone := gapless.known_zone(_zone);
  made.missed := _missed;
  made.starts_at := _starts_at;
  return made;
end
$$;
