-- Record the present minute of all groups and topics, unless that was done; return the number of rows that changed. The
-- active sequencer's process calls it each minute; clients that sequence by themselves may do so, too.
-- keep_hours: how long minutes are kept; 0: none is, and those that were kept are deleted.
create or replace function gapless.record_history(keep_hours int default 72) returns int
language sql security definer set search_path = pg_catalog, pg_temp as $$
  select gapless.record_history_at(clock_timestamp(), record_history.keep_hours)
$$;
