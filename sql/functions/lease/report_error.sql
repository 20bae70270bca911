-- What stops a partition, for status; null clears it.
create or replace function gapless.report_error(
  group_id text, topic_id int, partition_id int, token uuid, error text
)
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  update gapless.lease l
  set error = report_error.error,
    error_ts = case when report_error.error is not null then clock_timestamp() end
  where l.group_id = report_error.group_id and l.topic_id = report_error.topic_id
    and l.partition_id = report_error.partition_id and l.token = report_error.token
    and l.error is distinct from report_error.error
$$;
