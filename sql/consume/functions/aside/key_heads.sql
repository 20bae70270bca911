-- Return the first unit that holds a key, in each partition in which events with that key may be. One look-up for each
-- partition, however many units are parked. Within a partition an earlier layout has the lower offsets.
create or replace function gapless.key_heads(_group_id text, _topic_id int, _partition_id int, _key_digest bytea)
returns table (in_partition int, at_offset bigint)
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
  select p, h.first_offset
  from unnest(gapless.key_partitions(_topic_id, _partition_id)) p
  cross join lateral (
    select k.first_offset from gapless.dead_letter_key k
    where k.group_id = _group_id and k.topic_id = _topic_id
      and k.partition_id = p and k.key_digest = _key_digest
    order by k.first_offset limit 1
  ) h
$$;
