-- Of the events from first_offset to last_offset that belong to a transaction: is some of them put
-- aside, to be tried again ('waiting') or for good ('dead')?
create or replace function gapless.states_aside(
  group_id text, topic_id int, partition_id int, first_offset bigint, last_offset bigint,
  transaction_id uuid
)
returns text[]
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(
    array_agg(distinct case when d.status in ('waiting', 'parked') then 'waiting' else 'dead' end),
    '{}')
  from gapless.dead_letter_queue d
  where d.group_id = states_aside.group_id and d.topic_id = states_aside.topic_id
    and d.partition_id = states_aside.partition_id
    and d.c_offset between states_aside.first_offset and states_aside.last_offset
    and d.transaction_id = states_aside.transaction_id
$$;
