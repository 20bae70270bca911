-- Return the first due time of a schedule after a time. Raises GL400 for a schedule that has none.
create or replace function gapless.schedule_next(_schedule gapless.schedule, _after timestamptz) returns timestamptz
language sql stable as $$
  select case
    when (_schedule).cron is not null
      then gapless.cron_next((_schedule).cron, greatest(_after, (_schedule).starts_at - interval '1 us'),
        (_schedule).zone)
    else gapless.interval_next(
      (_schedule).every, (_schedule).starts_at, greatest(_after, (_schedule).starts_at - interval '1 us'),
      (_schedule).zone)
  end
$$;
