-- For whoever watches. How many sessions a supervisor takes for itself, its workers aside: one that is
-- measured has one more. And when the owner of a partition took it: a hand-over of lately can be told.
-- join_groups() and sessions_needed() get an argument with a default: who calls them as before goes on.

alter table gapless.member
  add column sessions int not null default 2 check (sessions >= 0);

comment on column gapless.member.sessions is 'Sessions it takes for itself, beside those of its workers.';

drop function if exists gapless.join_groups(uuid, int, text, int, int, interval, text[], text[]);
drop function if exists gapless.sessions_needed(int, int, text[], text[], int);

alter table gapless.lease add column acquired_ts timestamptz;

comment on column gapless.lease.acquired_ts is 'When the newest owner took it; null: before that was noted.';
