-- Return the calls of units at or after a group's offset: those that finished, and those that never ended.
create or replace function gapless.deliveries_of(_group_id text, _topic_id int, _partition_id int)
returns table (first_offset bigint, crashes int, finished boolean)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select d.first_offset, d.crashes, d.finished
  from gapless.delivery d
  where d.group_id = _group_id and d.topic_id = _topic_id and d.partition_id = _partition_id
$$;
