-- Groups that expire when they are not used for long: never by default (set_expiry.sql). idle: for how long they were
-- not used, as far as a supervisor looked; seen: the traces at the last look (expire_groups.sql).

create table gapless.group_expiry (
  group_id text primary key,
  expires_after interval not null,
  idle interval not null default '0',
  looked_ts timestamptz not null default clock_timestamp(),
  seen text,
  set_by text not null default session_user,
  set_ts timestamptz not null default clock_timestamp()
);

comment on table gapless.group_expiry is
  'Groups that are dropped with their letters when they have no member and no claim for expires_after.';
