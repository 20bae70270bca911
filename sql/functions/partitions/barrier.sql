-- Barriers: what keeps the order of a key when the number of partitions changes (I4).
--
-- Partition p under n partitions and q under m can have keys in common if p and q leave the same
-- remainder by gcd(n, m). So 4 -> 8 makes each partition wait for one, 4 -> 7 for four.
--
-- The partitions that a group has to bring to their barriers before it may handle events that this
-- layout placed in this partition; none: go on. Looks at all earlier layouts, not at the last one
-- only: a layout without an event of a key says nothing about the one before.
create or replace function gapless.blockers(
  group_id text, topic_id int, partition_id int, layout int
)
returns table (blocker int)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select distinct b.partition_id
  from gapless.layout n
  join gapless.layout o on o.topic_id = n.topic_id and o.layout < n.layout
  join gapless.barrier b on b.topic_id = o.topic_id and b.layout = o.layout
    and b.partition_id <> blockers.partition_id
    and (b.partition_id - blockers.partition_id) % gcd(o.partitions, n.partitions) = 0
  join gapless.consumer_offsets c on c.group_id = blockers.group_id and c.topic_id = b.topic_id
    and c.partition_id = b.partition_id and c.next_offset <= b.last_offset
  where n.topic_id = blockers.topic_id and n.layout = blockers.layout
$$;

-- Wake the workers of the partitions that waited for the last of those that they share keys with: this
-- one has passed the barriers of the layouts from `since` up to, not including, `upto`.
-- MUST come after the commit of the batch that passed the barrier: of two that pass at once, each
-- would find the other one still before it. A lost wake-up costs waitPeriodMs.
create or replace function gapless.announce(
  group_id text, topic_id int, partition_id int, since int, upto int
)
returns bigint
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select count(pg_notify('gapless_p_' || announce.topic_id || '_' || w.waiting, ''))
  from (
    select distinct p as waiting
    from gapless.barrier mine
    join gapless.layout o on o.topic_id = mine.topic_id and o.layout = mine.layout
    join gapless.layout n on n.topic_id = o.topic_id and n.layout > o.layout
    cross join lateral (select gcd(o.partitions, n.partitions) as step) g
    cross join lateral generate_series(announce.partition_id % g.step, n.partitions - 1, g.step) p
    where mine.topic_id = announce.topic_id and mine.partition_id = announce.partition_id
      and mine.layout >= announce.since and mine.layout < announce.upto
      and p <> announce.partition_id
      and not exists (
        select from gapless.barrier b
        join gapless.consumer_offsets c on c.topic_id = b.topic_id
          and c.partition_id = b.partition_id and c.next_offset <= b.last_offset
        where b.topic_id = mine.topic_id and b.layout = mine.layout
          and b.partition_id <> announce.partition_id
          and (b.partition_id - announce.partition_id) % g.step = 0
          and c.group_id = announce.group_id
      )
  ) w
$$;

-- A partition without anything left to handle: note once in each layout that it is past the barriers of
-- those before, and tell those that wait for it.
create or replace function gapless.pass_barrier(
  group_id text, topic_id int, partition_id int, epoch bigint, token uuid
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  since int;
  newest int := (select t.layout from gapless.topic t where t.topic_id = pass_barrier.topic_id);
begin
  select c.passed into since from gapless.consumer_offsets c
  where c.group_id = pass_barrier.group_id and c.topic_id = pass_barrier.topic_id
    and c.partition_id = pass_barrier.partition_id and c.passed < newest
    and c.epoch = pass_barrier.epoch and c.token = pass_barrier.token;
  -- Asked after `newest` was read: what came meanwhile may still lie before one of its barriers.
  if not found or not gapless.is_finished(group_id, topic_id, partition_id) then
    return;
  end if;
  update gapless.consumer_offsets c set passed = newest
  where c.group_id = pass_barrier.group_id and c.topic_id = pass_barrier.topic_id
    and c.partition_id = pass_barrier.partition_id
    and c.epoch = pass_barrier.epoch and c.token = pass_barrier.token;
  perform gapless.announce(group_id, topic_id, partition_id, since, newest);
end
$$;

-- The group handles events of this layout in this partition: so all it has to wait for is done, and it
-- is past the barriers of the layouts before.
-- Before: the offsets row is locked.
create or replace function gapless.enter_layout(
  group_id text, topic_id int, partition_id int, layout int
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  since int;
begin
  select c.passed into since from gapless.consumer_offsets c
  where c.group_id = enter_layout.group_id and c.topic_id = enter_layout.topic_id
    and c.partition_id = enter_layout.partition_id and c.layout < enter_layout.layout;
  if found then
    update gapless.consumer_offsets c
    set layout = enter_layout.layout, passed = greatest(c.passed, enter_layout.layout)
    where c.group_id = enter_layout.group_id and c.topic_id = enter_layout.topic_id
      and c.partition_id = enter_layout.partition_id;
    perform gapless.announce(group_id, topic_id, partition_id, since, enter_layout.layout);
  end if;
end
$$;

-- The layout that placed an offset; 0 when its segment is gone, for then it is older than all others.
create or replace function gapless.layout_of(topic_id int, partition_id int, c_offset bigint)
returns int
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(
    (
      select s.layout from gapless.log_segment s
      where s.topic_id = layout_of.topic_id and s.partition_id = layout_of.partition_id
        and s.base_offset <= layout_of.c_offset
      order by s.base_offset desc limit 1
    ), 0)
$$;

-- The partitions in which events with a key of this partition may be: this one, or all there ever were.
create or replace function gapless.key_partitions(topic_id int, partition_id int)
returns int[]
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select case t.layout
    when 0 then array[key_partitions.partition_id]
    else array(select p from generate_series(0, greatest(t.partitions, t.partitions_ever) - 1) p)
  end
  from gapless.topic t where t.topic_id = key_partitions.topic_id
$$;

-- Has the group handled all there is in this partition?
create or replace function gapless.is_finished(group_id text, topic_id int, partition_id int)
returns boolean
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(
    (
      select s.last_offset from gapless.log_segment s
      where s.topic_id = is_finished.topic_id and s.partition_id = is_finished.partition_id
      order by s.base_offset desc limit 1
    ), 0) < (
      select c.next_offset from gapless.consumer_offsets c
      where c.group_id = is_finished.group_id and c.topic_id = is_finished.topic_id
        and c.partition_id = is_finished.partition_id
    )
$$;
