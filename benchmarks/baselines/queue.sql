-- A work queue as commonly written: workers take rows with FOR UPDATE SKIP LOCKED. No order, no
-- groups, no replay. One table whose rows change their status, with or without an index of the new
-- rows, and one whose rows are deleted.
create schema if not exists baseline;

create table baseline.job (
  id bigint generated always as identity primary key,
  status text not null default 'new',
  payload json,
  created_ts timestamptz not null default now(),
  taken_ts timestamptz,
  done_ts timestamptz
);

create table baseline.job_indexed (like baseline.job including all);

create index job_new on baseline.job_indexed (id) where status = 'new';

create table baseline.job_deleted (like baseline.job including all);
