-- Record for status why a partition stands still, and since when: the first report counts until null clears it.
create or replace function gapless.report_error(
  _group_id text, _topic_id int, _partition_id int, _token uuid, _error text
) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update gapless.lease l
  set error = _error,
    error_ts = case when _error is not null then coalesce(l.error_ts, clock_timestamp()) end
  where l.group_id = _group_id and l.topic_id = _topic_id
    and l.partition_id = _partition_id and l.token = _token
    and l.error is distinct from _error
$$;
