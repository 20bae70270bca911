-- Return the timeline on which this server writes: a promoted standby, or a restore to a point in time, begins another
-- one. Offsets, ids and xids that were given on the old one after the split are given again; the timeline beside them
-- tells them apart. A standby says the one of its newest restart point, for it writes nothing.
create or replace function gapless.timeline() returns int
language sql volatile as $$
  select case when pg_is_in_recovery() then (pg_control_checkpoint()).timeline_id
    else ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int end
$$;
