-- Publish into a topic again and again: by a cron text (cron_next.sql) or at an interval, from starts_at on (default:
-- now). Returns the first due time.
--   select gapless.add_schedule('nightly', 'reports', cron => '0 3 * * *', zone => 'Europe/Berlin');
--   select gapless.add_schedule('pulse', 'pulses', every => '30 s');
-- payload: of each event; default: {"schedule": name, "due": time}. event_type: default the name. Headers
-- gapless-schedule and gapless-due are added. missed: the events for due times that passed while no publisher ran:
-- 'once' (one event), 'all', 'skip'.
-- A schedule of that name gets the new values; while its times stay the same, its next due time and a pause stay, too.
-- No due time is published twice: the next time is after the last one, whatever the clock does.
create or replace function gapless.add_schedule(
  name text, topic text, cron text default null, every interval default null, zone text default 'UTC',
  payload json default null, key text default null, event_type text default null,
  headers jsonb default null, missed text default 'once', starts_at timestamptz default null
) returns timestamptz
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  before gapless.schedule;
  made gapless.schedule;
  now_ts timestamptz := gapless.clock();
begin
  if jsonb_typeof(add_schedule.headers) <> 'object' then
    perform gapless.refuse_headers(add_schedule.headers);
  end if;
  select s.* into before from gapless.schedule s where s.name = add_schedule.name for update;
  made := gapless.checked_schedule(
    add_schedule.name, add_schedule.topic, add_schedule.cron, add_schedule.every, add_schedule.zone,
    add_schedule.missed, coalesce(add_schedule.starts_at, before.starts_at, date_trunc('second', now_ts))
  );
  made.payload := add_schedule.payload;
  made.key := add_schedule.key;
  made.event_type := add_schedule.event_type;
  made.headers := add_schedule.headers;
  made.last_due := before.last_due;
  made.next_due := gapless.schedule_next(made, greatest(now_ts, before.last_due));
  if before.next_due is not null and (before.cron, before.every, before.zone, before.starts_at)
    is not distinct from (made.cron, made.every, made.zone, made.starts_at)
  then
    made.next_due := before.next_due;
  end if;
  insert into gapless.schedule as s
    (name, topic_id, cron, every, zone, starts_at, missed, key, event_type, payload, headers, next_due)
  values (
    made.name, made.topic_id, made.cron, made.every, made.zone, made.starts_at, made.missed, made.key,
    made.event_type, made.payload, made.headers, made.next_due
  )
  on conflict (name) do update
  set topic_id = excluded.topic_id, cron = excluded.cron, every = excluded.every, zone = excluded.zone,
    starts_at = excluded.starts_at, missed = excluded.missed, key = excluded.key,
    event_type = excluded.event_type, payload = excluded.payload, headers = excluded.headers,
    next_due = excluded.next_due, trouble = null;
  perform gapless.note_schedule('schedule', made.name, made.topic_id);
  return made.next_due;
end
$$;
