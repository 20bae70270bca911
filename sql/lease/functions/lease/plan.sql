-- Write a target for every partition of a group: balanced to within one (inside capacities), with as few moves as
-- possible.
-- Returns the number of changed targets.
--
-- Water level: the quota is min(capacity, level), and one more for as many members as the remainder allows, first for
-- those that hold most now: that order makes the moves minimal. A member keeps its partitions up to its quota; the rest
-- goes to members below theirs. Without room anywhere the target is null: the partition is unserved, and status says
-- so. A partition's holder is the member to which it is promised; or its owner, if that member went before it took the
-- partition.
--
-- plan: leases are rarely analysed, and nested loops over the CTEs take 100 times as long (4096
--   partitions, 64 members: 8 s against 60 ms); compiling the plan would take 1.5 s.
create or replace function gapless.plan(_group_id text, _topic_id int, _live uuid[], _generation bigint) returns int
language sql security definer set search_path = pg_catalog, pg_temp
set enable_nestloop = off set jit = off as $$
  with recursive
  parts as (
    select l.partition_id, l.target, l.owner,
      case when l.target = any (_live) then l.target else l.owner end as holder
    from gapless.lease l
    where l.group_id = _group_id and l.topic_id = _topic_id
  ),
  members as (
    select
      m.member_id,
      m.member_no,
      least(
        (select count(*) from parts),
        greatest(0, coalesce(m.capacity - e.elsewhere, (select count(*) from parts)))
      ) as cap,
      coalesce(h.held, 0) as held,
      e.elsewhere
    from gapless.member m
    left join (select p.holder, count(*) as held from parts p group by p.holder) h
      on h.holder = m.member_id
    left join (
      select x.target, count(*) as partitions from gapless.lease x
      where (x.group_id, x.topic_id) <> (_group_id, _topic_id)
      group by x.target
    ) o on o.target = m.member_id
    cross join lateral (select coalesce(o.partitions, 0) as elsewhere) e
    where m.member_id = any (_live)
  ),
  -- Members in the order of their capacity: each takes its fill while it has less than a fair share.
  filling as (
    select 0::bigint as n, (select count(*) from parts) as remaining,
      (select count(*) from members) as waiting
    union all
    select f.n + 1,
      f.remaining - least(o.cap, f.remaining / f.waiting),
      f.waiting - 1
    from filling f
    join (select cap, row_number() over (order by cap, member_no) as n from members) o
      on o.n = f.n + 1
    where f.waiting > 0 and o.cap <= f.remaining / f.waiting
  ),
  rest as (
    select f.n as filled, f.remaining, f.waiting from filling f order by f.n desc limit 1
  ),
  quotas as (
    select
      m.member_id, m.member_no, m.held, m.elsewhere,
      case
        when m.by_cap <= r.filled then m.cap
        else r.remaining / r.waiting + case
          when row_number() over (
            partition by m.by_cap > r.filled
            order by m.held desc, m.elsewhere, m.member_no
          ) <= r.remaining % r.waiting then 1 else 0 end
      end as quota
    from (select *, row_number() over (order by cap, member_no) as by_cap from members) m
    cross join rest r
  ),
  kept as (
    select k.partition_id, k.holder as member_id
    from (
      select p.partition_id, p.holder, q.quota,
        row_number() over (
          partition by p.holder order by p.owner is distinct from p.holder, p.partition_id
        ) as n
      from parts p
      join quotas q on q.member_id = p.holder
    ) k
    where k.n <= k.quota
  ),
  free as (
    select p.partition_id, row_number() over (order by p.partition_id) as n
    from parts p
    where not exists (select from kept k where k.partition_id = p.partition_id)
  ),
  slots as (
    select q.member_id,
      row_number() over (order by s.slot, q.elsewhere, q.member_no) as n
    from quotas q
    cross join lateral generate_series(least(q.held, q.quota) + 1, q.quota) as s (slot)
  ),
  wanted as (
    select k.partition_id, k.member_id from kept k
    union all
    select f.partition_id, s.member_id from free f left join slots s using (n)
  ),
  moved as (
    update gapless.lease l
    set target = w.member_id, generation = _generation
    from wanted w
    where l.group_id = _group_id and l.topic_id = _topic_id
      and l.partition_id = w.partition_id and l.target is distinct from w.member_id
    returning 1
  )
  select count(*)::int from moved
$$;
