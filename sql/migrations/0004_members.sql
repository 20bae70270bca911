-- How many partitions a worker of a member serves over one session: what a fleet needs in sessions,
-- and what people see, depend on it.
alter table gapless.member
  add column partitions_per_worker int not null default 1 check (partitions_per_worker >= 1);
