-- End the sessions that hold a pipeline's run lock although its run has given no sign of life for _ttl: its process is
-- paused, or its machine is gone. Its late commits fail with its session. Returns the number of ended sessions.
-- MUST leave a session that has done something since: the last sign of life may be that of an earlier run, and a run
-- that ends a batch, a reset or a removal at this moment gives none.
create or replace function gapless.end_silent_run(_name text, _ttl interval) returns int
language sql security definer set search_path = pg_catalog, pg_temp as $$
  select count(*) filter (where pg_terminate_backend(k.pid))::int
  from gapless.pipeline p
  join pg_locks k on k.locktype = 'advisory' and k.classid = 7427005::oid and k.objsubid = 2 and k.granted
    and k.objid::bigint = hashtext(p.name)::bigint & 4294967295 and k.pid <> pg_backend_pid()
    and k.database = (select d.oid from pg_database d where d.datname = current_database())
  join pg_stat_activity a using (pid)
  -- A time to come: the clock was set back since, and a run that lives gives another sign within seconds.
  where p.name = _name and p.beat_ts not between clock_timestamp() - _ttl and clock_timestamp() + _ttl
    -- Null without pg_read_all_stats, for a session of another role: then the sign of life alone counts.
    and coalesce(
      a.state_change not between clock_timestamp() - _ttl and clock_timestamp() + _ttl
        and (a.state <> 'active' or a.wait_event = 'ClientRead'),
      true
    )
$$;
