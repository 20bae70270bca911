-- The timeline this server writes on: a promoted standby, or a restore to a point in time, begins
-- another one. Offsets, ids and xids given on the old one after it parted are given again; with the
-- timeline beside them they are not taken for the same.
create or replace function gapless.timeline()
returns int
language sql
volatile
as $$
  select ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int
$$;
