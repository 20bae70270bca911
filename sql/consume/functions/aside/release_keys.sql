-- park-key: a unit that parks others, or is parked, has rows in dead_letter_key. A parked unit follows
-- once no earlier unit has a key of its own: then it becomes 'waiting', due now. Earlier is a lower
-- offset or, when the number of partitions was changed, another partition of an earlier layout.
--
-- Sessions that remove keys, and sessions that park units, look under one lock until their COMMIT: otherwise a unit
-- could be parked behind one that is being discarded, and would never be released. MUST take the lock in a statement of
-- its own: the look needs a snapshot from after it.

-- Remove the keys of a unit, because it was handled or discarded; returns the number of units that follow now.
-- locks: the group's row of guard_keys until the transaction ends, if the unit had keys
create or replace function gapless.release_keys(_group_id text, _topic_id int, _partition_id int, _first_offset bigint)
returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  freed bytea[];
  next record;
  following int := 0;
begin
  perform from gapless.dead_letter_key k
  where k.group_id = _group_id and k.topic_id = _topic_id
    and k.partition_id = _partition_id and k.first_offset = _first_offset;
  if not found then
    return 0;
  end if;
  perform gapless.lock_keys(_group_id, _topic_id, _partition_id);
  with gone as (
    delete from gapless.dead_letter_key k
    where k.group_id = _group_id and k.topic_id = _topic_id
      and k.partition_id = _partition_id and k.first_offset = _first_offset
    returning k.key_digest
  )
  select array_agg(g.key_digest) into freed from gone g;
  for next in
    select n.partition_id, array_agg(distinct n.first_offset) as first_offsets
    from unnest(freed) as f (digest)
    cross join lateral (
      select h.in_partition as partition_id, h.at_offset as first_offset
      from gapless.key_heads(_group_id, _topic_id, _partition_id, f.digest) h
      order by gapless.layout_of(_topic_id, h.in_partition, h.at_offset)
      limit 1
    ) n
    group by n.partition_id
  loop
    following := following + gapless.unpark(
      _group_id, _topic_id, next.partition_id, next.first_offsets
    );
    if next.partition_id <> _partition_id then
      perform pg_notify('gapless_p_' || _topic_id || '_' || next.partition_id, 'letter');
    end if;
  end loop;
  return following;
end
$$;
