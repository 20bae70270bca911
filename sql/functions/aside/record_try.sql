-- Write down that a unit is about to be handled. Returns how often that was begun without an end,
-- this time included; 0 when the unit is not due (any more), or paused; null when fenced.
-- locks: the consumer_offsets row, then the unit's
create or replace function gapless.record_try(
  group_id text, topic_id int, partition_id int, epoch bigint, token uuid, first_offset bigint
)
returns int
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
  tries int;
begin
  if not gapless.lock_fence(
    record_try.group_id, record_try.topic_id, record_try.partition_id, record_try.epoch,
    record_try.token
  ) then
    return null;
  end if;
  update gapless.dead_letter d set crashes = d.crashes + 1
  where d.group_id = record_try.group_id and d.topic_id = record_try.topic_id
    and d.partition_id = record_try.partition_id and d.first_offset = record_try.first_offset
    and coalesce(d.state, '') = 'waiting' and d.next_attempt_ts <= clock_timestamp()
    and not gapless.is_paused(d.group_id, d.topic_id, d.partition_id)
  returning d.crashes into tries;
  return coalesce(tries, 0);
end
$$;
