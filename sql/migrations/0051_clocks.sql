-- A clock that was ahead for a moment wrote times that lie further ahead than they should: what they were counted from
-- is kept beside them, so that they can be brought back (heal_letters.sql, fire_schedules.sql). Nothing is rewritten.
alter table gapless.dead_letter add column due_set_ts timestamptz;

comment on column gapless.dead_letter.due_set_ts is 'When next_attempt_ts was set (stamp_due.sql); null: before 0051.';

create index dead_letter_due_set on gapless.dead_letter (due_set_ts) where state = 'waiting';

alter table gapless.schedule
  add column jumped_ts timestamptz,
  add column ahead tstzmultirange not null default '{}';

comment on column gapless.schedule.jumped_ts is
  'Where it continued when due times before had been missed: of those from there to last_due each has its event.';
comment on column gapless.schedule.ahead is
  'Due times that have their events already, published by a clock that was ahead.';

create index schedule_last_due on gapless.schedule (last_due);
