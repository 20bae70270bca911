-- Check the invariants of leases, at any time; no row when they hold. docs/why/leases.md names them: S5 the fence's
-- epoch is one that the lease gave out; S6 one owner, with the fence's values;
-- P1 a plan that knows the present members is balanced to within one, inside capacities.
create or replace function gapless.check_leases() returns table (invariant text, place text, problem text)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  with
  lease as (
    select l.*, concat_ws('/', l.group_id, t.name, l.partition_id) as place
    from gapless.lease l
    join gapless.topic t using (topic_id)
  ),
  fresh as (
    select g.group_id, g.topic_id, g.planned_for, concat_ws('/', g.group_id, t.name) as place
    from gapless.consumer_group g
    join gapless.topic t using (topic_id)
    where g.planned_for <> '{}'
      and g.planned_for = gapless.live_members(g.group_id, g.topic_id)
  ),
  loads as (
    select
      f.group_id, f.topic_id, f.place, m.name,
      (
        select count(*) from lease l
        where l.group_id = f.group_id and l.topic_id = f.topic_id and l.target = m.member_id
      ) as partitions,
      m.capacity <= (select count(*) from lease l where l.target = m.member_id) as is_full
    from fresh f
    join gapless.member m on m.member_id = any (f.planned_for)
  )
  select 'S5', l.place, format('the fence has epoch %s, the lease only %s', c.epoch, l.epoch)
  from lease l
  join gapless.consumer_offsets c using (group_id, topic_id, partition_id)
  where c.epoch > l.epoch
  union all
  select 'S6', l.place, format('epoch %s is of two owners', l.epoch)
  from lease l
  join gapless.consumer_offsets c using (group_id, topic_id, partition_id)
  where c.epoch = l.epoch and c.token <> l.token
  union all
  select 'S6', l.place, 'a lease without an offset'
  from lease l
  full join gapless.consumer_offsets c using (group_id, topic_id, partition_id)
  left join gapless.topic t on t.topic_id = c.topic_id
  -- A partition that its topic no longer has was retired: its offset stays (functions/retire.sql).
  where c.partition_id is null or (l.lease_no is null and c.partition_id < t.partitions)
  union all
  select 'P1', l.place, 'planned for a member that the plan does not know'
  from lease l
  join fresh f using (group_id, topic_id)
  where l.target <> all (f.planned_for)
  union all
  select 'P1', high.place, format('%s has %s, %s has %s', high.name, high.partitions, low.name,
    low.partitions)
  from loads high
  join loads low using (group_id, topic_id)
  where high.partitions > low.partitions + 1 and low.is_full is not true
$$;
