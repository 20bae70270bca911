-- Write the filter that the next claim has to know to each offset of a group (claim_at.sql); 0, or -1: none
-- (unfiltered.sql). The counts begin anew.
create or replace function gapless.stamp_filter(_group_id text, _topic_id int, _filter int) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform from gapless.consumer_offsets c
  where c.group_id = _group_id and c.topic_id = _topic_id
  order by c.partition_id
  for update;
  delete from gapless.filter_tally t where t.group_id = _group_id and t.topic_id = _topic_id;
  update gapless.consumer_offsets c set filter_no = _filter
  where c.group_id = _group_id and c.topic_id = _topic_id;
end
$$;
