-- How many partitions a worker of a member serves over one session: what a fleet needs in sessions,
-- and what people see, depend on it.
alter table gapless.member
  add column partitions_per_worker int not null default 1 check (partitions_per_worker >= 1);

-- Who was evicted lately, and why, for people: a member that leaves by itself is not here.
create table gapless.eviction (
  member_id uuid primary key,
  name text not null,
  reason text not null,
  evicted_ts timestamptz not null default clock_timestamp()
);
