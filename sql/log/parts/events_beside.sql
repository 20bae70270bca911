-- Events that are kept beside the log, also after retention has dropped them there, with their places in it. The log
-- itself keeps none: this says the columns.
select null::int as topic_id, null::bytea as key_digest, null::int as partition_id, null::bigint as c_offset,
  null::int as timeline, null::bigint as id, null::xid8 as xid, null::text as key, null::text as host_id,
  null::text as user_id, null::uuid as transaction_id, null::text as event_type, null::json as payload,
  null::jsonb as headers, null::timestamptz as created_ts, null::text as cause, null::uuid as correlation
where false
