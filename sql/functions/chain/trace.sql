-- What came of a transaction: the whole tree it stands in, from the first event of its chain on, each
-- unit behind the one it came of (cause.sql).
--   select * from gapless.trace('…');
--   node, parent, level  1, 2, 3, …; the node it came of, null at level 0; how deep
--   is_asked      it was published by the transaction that was asked for
--   group_id, cause   who published it, while handling what; null when no handler did
--   detached      it names a cause, and stands at level 0: 'dropped' by retention, 'elsewhere' (of
--                 another chain, or of none), 'left-out' of this answer
--   topic, partition_id, first_offset, last_offset, events   the unit; no offsets: not sequenced yet
--   event_types, keys   of its events, ten at most
--   published_as, published_ts   its transaction_id; when its first event was inserted
--   state         'sequenced', 'unsequenced', 'dropped' (by retention; known from a dead letter)
--   groups        an object for each group of its topic, and each that published because of it: group,
--                 and state, next_offset, letter, reason, attempts of gapless.unit_state()
--   left_out      how many units that came of it are not in this answer. A last row with no node counts
--                 those that came of none that is in it; null: there are more than were looked at
-- units_max: 1 to 10 000, of which those next to the root come first, but before them what was asked
-- for and the 30 units that led to it; nothing is deeper than 50 levels.
-- No row: nothing of it is there; gapless.transaction_fate() knows more.
create or replace function gapless.trace(transaction_id uuid, units_max int default 1000)
returns table (
  node int, parent int, level int, is_asked boolean, group_id text, cause text, detached text,
  topic text, partition_id int, first_offset bigint, last_offset bigint, events bigint,
  event_types text[], keys text[], published_as uuid, published_ts timestamptz, state text,
  groups jsonb, left_out bigint
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
set jit = off
as $$
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

-- Where the nodes of a forest stand in an answer of nodes_max: numbered so that each is followed by
-- what is below it; level, and how many below it are left out (of those whose nearest is this one). A
-- last row without node counts those below none. ids ascend, and a parent's is lower than its child's.
create or replace function gapless.lay_out(
  ids bigint[], parents bigint[], asked boolean[], nodes_max int
)
returns table (first_id bigint, node int, parent int, level int, left_out bigint)
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
  n int := coalesce(cardinality(ids), 0);
  above int[] := array_fill(0, array[n]);      -- the parent's number, 0: none
  depth int[] := array_fill(0, array[n]);
  leads boolean[] := array_fill(false, array[n]);    -- to one that was asked for
  beside boolean[] := array_fill(false, array[n]);   -- below one that leads there
  stays boolean[] := array_fill(false, array[n]);
  nearest int[] := array_fill(0, array[n]);    -- itself, or the one above it that stays
  size int[] := array_fill(0, array[n]);       -- of what stays: itself, and all below
  lost bigint[] := array_fill(0::bigint, array[n]);
  place int[] := array_fill(0, array[n]);
  next_place int[] := array_fill(0, array[n]);
  lost_roots bigint := 0;
  next_root int := 1;
  k int;
  steps int;
begin
  for i in 1..n loop
    if parents[i] is not null then
      above[i] := width_bucket(parents[i], ids);
      depth[i] := depth[above[i]] + 1;
    end if;
  end loop;
  for i in 1..n loop
    k := case when asked[i] then i else 0 end;
    steps := 0;
    while k > 0 and not leads[k] and steps <= 30 loop
      leads[k] := true;
      k := above[k];
      steps := steps + 1;
    end loop;
  end loop;
  for i in 1..n loop
    beside[i] := leads[i] or (above[i] > 0 and beside[above[i]]);
  end loop;
  -- Nearest to what was asked for, then to the roots; what is of another root comes last.
  for k in
    select x.i
    from unnest(asked, leads, beside, depth) with ordinality
      as x (is_asked, does_lead, is_beside, at_depth, i)
    order by not x.is_asked, not x.does_lead, not x.is_beside,
      case when x.does_lead then -x.at_depth else x.at_depth end, x.i
    limit nodes_max
  loop
    stays[k] := true;
  end loop;
  for i in 1..n loop
    k := above[i];
    depth[i] := case when k > 0 and stays[k] then depth[k] + 1 else 0 end;
    -- What led to the one that was asked for may begin anew; nothing else without what it came of.
    stays[i] := stays[i] and depth[i] < 50 and (k = 0 or stays[k] or leads[i]);
    nearest[i] := case when stays[i] then i when k > 0 then nearest[k] else 0 end;
    continue when stays[i];
    if nearest[i] > 0 then
      lost[nearest[i]] := lost[nearest[i]] + 1;
    else
      lost_roots := lost_roots + 1;
    end if;
  end loop;
  for i in reverse n..1 loop
    k := above[i];
    if stays[i] then
      size[i] := size[i] + 1;
      if k > 0 and stays[k] then
        size[k] := size[k] + size[i];
      end if;
    end if;
  end loop;
  for i in 1..n loop
    continue when not stays[i];
    k := above[i];
    if k > 0 and stays[k] then
      place[i] := next_place[k];
      next_place[k] := place[i] + size[i];
    else
      k := 0;
      place[i] := next_root;
      next_root := place[i] + size[i];
    end if;
    next_place[i] := place[i] + 1;
    first_id := ids[i];
    node := place[i];
    parent := case when k > 0 then place[k] end;
    level := depth[i];
    left_out := lost[i];
    return next;
  end loop;
  first_id := null;
  node := null;
  parent := null;
  level := null;
  left_out := lost_roots;
  return next;
end
$$;
