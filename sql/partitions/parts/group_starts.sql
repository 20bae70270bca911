-- Places where a group may begin besides the ends of the log, one for each partition: from first_offset on it reads
-- events_beside, from upto on the log; first_offset null: the log at once. No room of the core has one: this says the
-- columns.
select null::text as start, null::int as topic_id, null::int as partition_id, null::bigint as first_offset,
  null::bigint as upto
where false
