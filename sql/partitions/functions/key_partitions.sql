-- Return the partitions that may have events with a key of this partition: this one, or all there ever were.
create or replace function gapless.key_partitions(_topic_id int, _partition_id int) returns int[]
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select case t.layout
    when 0 then array[_partition_id]
    else array(select p from generate_series(0, greatest(t.partitions, t.partitions_ever) - 1) p)
  end
  from gapless.topic t where t.topic_id = _topic_id
$$;
