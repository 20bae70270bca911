-- Return the places of the nodes of a forest in an answer of nodes_max: numbered so that each is followed by its
-- descendants; level, and the number of left-out descendants (those for which it is the nearest). A last row without
-- node counts those without a parent in the answer. ids ascend, and a parent's is lower than its child's.
create or replace function gapless.lay_out(_ids bigint[], _parents bigint[], _asked boolean[], _nodes_max int)
returns table (first_id bigint, node int, parent int, level int, left_out bigint)
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
  n int := coalesce(cardinality(_ids), 0);
  above int[] := array_fill(0, array[n]);      -- the parent's number, 0: none
  depth int[] := array_fill(0, array[n]);
  leads boolean[] := array_fill(false, array[n]);    -- to a requested one
  beside boolean[] := array_fill(false, array[n]);   -- below one that leads there
  stays boolean[] := array_fill(false, array[n]);
  nearest int[] := array_fill(0, array[n]);    -- itself, or the one above it that stays
  size int[] := array_fill(0, array[n]);       -- of the remaining tree: itself, and its descendants
  lost bigint[] := array_fill(0::bigint, array[n]);
  place int[] := array_fill(0, array[n]);
  next_place int[] := array_fill(0, array[n]);
  lost_roots bigint := 0;
  next_root int := 1;
  k int;
  steps int;
begin
  for i in 1..n loop
    if _parents[i] is not null then
      above[i] := width_bucket(_parents[i], _ids);
      depth[i] := depth[above[i]] + 1;
    end if;
  end loop;
  for i in 1..n loop
    k := case when _asked[i] then i else 0 end;
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
  -- Nearest to the requested nodes, then to the roots; nodes of other roots come last.
  for k in
    select x.i
    from unnest(_asked, leads, beside, depth) with ordinality
      as x (is_asked, does_lead, is_beside, at_depth, i)
    order by not x.is_asked, not x.does_lead, not x.is_beside,
      case when x.does_lead then -x.at_depth else x.at_depth end, x.i
    limit _nodes_max
  loop
    stays[k] := true;
  end loop;
  for i in 1..n loop
    k := above[i];
    depth[i] := case when k > 0 and stays[k] then depth[k] + 1 else 0 end;
    -- The way to the requested node may begin anew; every other node needs its parent.
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
    first_id := _ids[i];
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
