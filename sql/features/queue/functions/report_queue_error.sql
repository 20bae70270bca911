-- Record for status why the workers of a queue rest: in the lease of its first partition, because they share all
-- partitions; null clears it. The view `leases` shows it as long as it is repeated: its reporter may be gone.
create or replace function gapless.report_queue_error(_group_id text, _topics text[], _error text) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update gapless.lease l
  set error = _error,
    error_ts = case when _error is not null then clock_timestamp() end
  where l.lease_no = (
    select k.lease_no
    from gapless.lease k
    join gapless.topic t using (topic_id)
    join gapless.consumer_group g using (group_id, topic_id)
    where k.group_id = _group_id and t.name = any (_topics) and g.mode = 'queue'
    order by array_position(_topics, t.name), k.partition_id
    limit 1
  )
$$;
