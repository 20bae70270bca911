-- The rows of member, in a way that stays cheap while a snapshot is held: heartbeats update them each second, and a
-- scan reads all versions since. So a table of more than 128 pages is not scanned: the newest version of each is looked
-- up from the index's end, which costs more where many members have few versions. For queries that run again and again.
-- index: member_member_no_key, backwards (offset_row.sql says why so)
create or replace view gapless.all_members as
with recursive
size as materialized (
  select pg_relation_size('gapless.member') > 128 * 8192 as is_large
),
newest as (
  (
    select x as m from gapless.member x where (select s.is_large from size s) order by x.member_no desc limit 1
  )
  union all
  select b.m
  from newest n
  cross join lateral (
    select x as m from gapless.member x where x.member_no < (n.m).member_no order by x.member_no desc limit 1
  ) b
)
select (n.m).member_id, (n.m).member_no, (n.m).name, (n.m).state, (n.m).kind, (n.m).capacity, (n.m).ttl,
  (n.m).expires_at, (n.m).suspect_at, (n.m).started_ts, (n.m).polled_ts, (n.m).backend_pid, (n.m).role,
  (n.m).version, (n.m).python
from (
  select m from newest
  union all
  select x from gapless.member x where not (select s.is_large from size s)
) n;

comment on view gapless.all_members is 'The table member, read in a way that stays cheap while a snapshot is held.';
