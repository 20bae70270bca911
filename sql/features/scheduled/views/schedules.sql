-- Schedules, with the topic's name (null: it is gone) and the delay of the next event.
create or replace view gapless.schedules as
select
  s.name, t.name as topic, s.cron, s.every, s.zone, s.missed, s.next_due, s.last_due, s.fired,
  s.paused_ts is not null as paused,
  s.trouble,
  case
    when s.paused_ts is null
      then greatest(extract(epoch from gapless.clock() - s.next_due), 0)::float8
  end as late_s
from gapless.schedule s
left join gapless.topic t using (topic_id);

comment on view gapless.schedules is 'Schedules, and when each is due next.';
