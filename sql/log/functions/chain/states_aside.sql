-- Tell whether one of the events from first_offset to last_offset that belong to a transaction is put aside, to be
-- tried again ('waiting') or for good ('dead').
create or replace function gapless.states_aside(
  _group_id text, _topic_id int, _partition_id int, _first_offset bigint, _last_offset bigint,
  _transaction_id uuid
) returns text[]
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select coalesce(
    array_agg(distinct case when d.status in ('waiting', 'parked') then 'waiting' else 'dead' end),
    '{}')
  from gapless.dead_letter_queue d
  where d.group_id = _group_id and d.topic_id = _topic_id and d.partition_id = _partition_id
    and d.c_offset between _first_offset and _last_offset
    and d.transaction_id = _transaction_id
$$;
