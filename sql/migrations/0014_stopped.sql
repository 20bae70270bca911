-- A group that was found beyond the end of the log (forced there, or restored without the end of its log)
-- stays where it is until somebody says where it goes on: it would pass what comes next unhandled.

alter table gapless.consumer_offsets
  add column stopped_at bigint;    -- the offset that the next event had when that was found

comment on column gapless.consumer_offsets.stopped_at is
  'Where the log ended when the group was found beyond it: nothing is claimed until gapless seek.';
