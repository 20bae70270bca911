-- Return the units that are parked behind one, directly or behind another parked one, in whatever partition: a change
-- of their number may have moved a key.
create or replace function gapless.parked_after(_group_id text, _topic_id int, _partition_id int, _first_offset bigint)
returns table (parked_partition int, parked_offset bigint, events int)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  with recursive
  behind (place, unit) as (
    select _partition_id, _first_offset
    union
    select theirs.partition_id, theirs.first_offset
    from behind b
    join gapless.dead_letter_key mine
      on mine.group_id = _group_id and mine.topic_id = _topic_id
      and mine.partition_id = b.place and mine.first_offset = b.unit
    join gapless.dead_letter_key theirs
      on theirs.group_id = mine.group_id and theirs.topic_id = mine.topic_id
      and theirs.partition_id = any (gapless.key_partitions(mine.topic_id, mine.partition_id))
      and theirs.key_digest = mine.key_digest
      and gapless.is_ahead(
        mine.topic_id, mine.partition_id, mine.first_offset, theirs.partition_id, theirs.first_offset
      )
  )
  select d.partition_id, d.first_offset, d.events
  from behind b
  join gapless.dead_letter d
    on d.group_id = _group_id and d.topic_id = _topic_id
    and d.partition_id = b.place and d.first_offset = b.unit
  where d.state = 'parked'
    and (b.place, b.unit) <> (_partition_id, _first_offset)
  order by 1, 2
$$;
