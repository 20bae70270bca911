-- Does any unit of this partition, or of one its keys were in before, hold a key? For every claim under
-- park-key; one look-up, as long as the number of partitions was never changed.
create or replace function gapless.holds_keys(group_id text, topic_id int, partition_id int)
returns boolean
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
  select exists (
    select from gapless.dead_letter_key k
    where k.group_id = holds_keys.group_id and k.topic_id = holds_keys.topic_id
      and k.partition_id = any (
        gapless.key_partitions(holds_keys.topic_id, holds_keys.partition_id)
      )
  )
$$;
