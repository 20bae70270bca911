-- Tell whether a unit of this partition, or of a partition that had its keys before, holds a key. Asked by every claim
-- under park-key; one look-up, as long as the number of partitions was never changed.
create or replace function gapless.holds_keys(_group_id text, _topic_id int, _partition_id int) returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
  select exists (
    select from gapless.dead_letter_key k
    where k.group_id = _group_id and k.topic_id = _topic_id
      and k.partition_id = any (
        gapless.key_partitions(_topic_id, _partition_id)
      )
  )
$$;
