-- Show the whole tree in which a transaction stands: from the first event of its chain on, each unit behind the unit
-- that caused it (tell_cause()).
--   select * from gapless.trace('…');
--   node, parent, level  1, 2, 3, …; the node that caused it, null at level 0; the depth
--   is_asked      the transaction that was asked for published it
--   group_id, cause   the group that published it, and the unit that the group was handling; null when no handler did
--   detached      the reason why a unit that names a cause stands at level 0: its cause was 'dropped' by retention, is
--                 'elsewhere' (in another chain, or in none), or 'left-out' of this answer
--   topic, partition_id, first_offset, last_offset, events   the unit; no offsets: not sequenced yet
--   event_types, keys   of its events, at most ten
--   published_as, published_ts   its transaction_id; the time at which its first event was inserted
--   state         'sequenced', 'unsequenced', 'dropped' (by retention; known from a dead letter)
--   groups        an object for each group of its topic, and for each group that published because of it: group, and
--                 state, next_offset, letter, reason, attempts of gapless.unit_state()
--   left_out      the number of units that it caused and that are not in this answer. A last row without a node counts
--                 the units whose cause is not in the answer either; null: there are more than were looked at
-- units_max: 1 to 10 000. The 30 units that led to the requested one, and that one, come first, then the units nearest
-- to the root; nothing is deeper than 50 levels.
-- No row: no event of the transaction is there; gapless.transaction_fate() knows more.
create or replace function gapless.trace(transaction_id uuid, units_max int default 1000) returns table (
  node int, parent int, level int, is_asked boolean, group_id text, cause text, detached text,
  topic text, partition_id int, first_offset bigint, last_offset bigint, events bigint,
  event_types text[], keys text[], published_as uuid, published_ts timestamptz, state text,
  groups jsonb, left_out bigint
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  units_max int := least(greatest(coalesce(trace.units_max, 1000), 1), 10000);
  events_max int := greatest(20 * units_max, 2000);
begin
  return query
  with
  units as materialized (
    select * from gapless.chain_units(trace.transaction_id, events_max)
  ),
  tree as materialized (
    select l.*
    from (
      select array_agg(u.first_id order by u.first_id) as ids,
        array_agg(u.parent_id order by u.first_id) as parents,
        array_agg(u.is_asked order by u.first_id) as asked
      from units u
    ) a
    cross join lateral gapless.lay_out(a.ids, a.parents, a.asked, units_max) l
  )
  (
    select
      l.node, l.parent, l.level, u.is_asked, u.cause_group, u.cause,
      case
        when l.parent is not null or u.cause is null then null
        when u.parent_id is not null then 'left-out'
        when u.cause_offset < gapless.log_first(u.cause_topic_id, u.cause_partition_id)
          then 'dropped'
        else 'elsewhere'
      end,
      t.name, u.partition_id, u.first_offset, u.last_offset, u.events, u.event_types, u.keys,
      u.published_as, u.published_ts,
      case
        when u.partition_id is null then 'unsequenced'
        when u.is_dropped then 'dropped'
        else 'sequenced'
      end,
      (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'group', g.group_id, 'state', s.state, 'next_offset', s.next_offset,
            'letter', s.letter, 'reason', s.reason, 'attempts', s.attempts
          ) order by g.group_id
        ), '[]')
        from (
          select c.group_id from gapless.consumer_group c
          where c.topic_id = u.topic_id and not c.is_scratch
          union
          select c.cause_group from units c where c.parent_id = u.first_id
        ) g
        cross join lateral gapless.unit_state(
          g.group_id, u.topic_id, u.partition_id, u.first_offset, u.last_offset
        ) s
      ),
      l.left_out
    from tree l
    join units u using (first_id)
    join gapless.topic t on t.topic_id = u.topic_id
    order by l.node
  )
  union all
  select
    null, null, null, false, null, null, null, null, null, null, null, null, null, null, null, null,
    'left-out', '[]', case when x.seen < events_max then l.left_out end
  from tree l
  cross join (select coalesce(sum(u.events), 0) as seen from units u) x
  where l.node is null and (l.left_out > 0 or x.seen >= events_max);
end
$$;
