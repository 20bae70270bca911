-- A clock that is ahead for a moment destroys nothing (look_at_clock.sql), and an event for later that waits for a
-- length keeps from when it counts (heal_later.sql). Nothing is rewritten.
create table gapless.clock_look (
  looked_ts timestamptz,    -- null: nobody has looked yet
  sure_ts timestamptz,      -- the last look before a step ahead
  doubted_ts timestamptz,   -- where that step went to; null: none
  is_step boolean not null default false    -- somebody looked all the time
);

insert into gapless.clock_look default values;

comment on table gapless.clock_look is 'What those saw who looked at the clock: one row (look_at_clock.sql).';

alter table gapless.scheduled add column counts_from timestamptz;

comment on column gapless.scheduled.counts_from is
  'When its transaction began, if its publisher gave a length; null: it gave a time.';

create index scheduled_counts_from on gapless.scheduled (counts_from) where counts_from is not null;

drop function if exists
  gapless.schedule_event(timestamptz, int, json, text, text, jsonb, text, text, uuid, text);
