-- Return the offsets of a pipeline, by topic and partition.
create or replace function gapless.pipeline_place(_name text) returns jsonb
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select jsonb_object_agg(x.name, x.places)
  from (
    select t.name, jsonb_object_agg(c.partition_id, c.next_offset) as places
    from gapless.consumer_offsets c
    join gapless.topic t using (topic_id)
    where c.group_id = 'pipeline.' || _name
    group by t.name
  ) x
$$;
